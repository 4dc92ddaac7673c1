#include "data/frontends/ansor/records/record_reader.h"

#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "base/error.h"
#include "base/index_range.h"
#include "data/files/file_form.h"

namespace foretime::data {
namespace {

using simdjson::dom::element;

constexpr size_t kMostSteps = 4096, kLongestList = 1024;

/// The arguments of one step, read one after the other.
class Arguments {
 public:
  Arguments(const simdjson::dom::array& list, size_t step, ScheduleSteps& steps)
      : item_(list.begin()), end_(list.end()), step_(step), steps_(steps) {}

  std::string_view name() {
    std::string_view value;
    if (next("the name of a step").get(value) != simdjson::SUCCESS) fail("the name of a step");
    name_ = value;
    return value;
  }

  int64_t integer(const char* expected, int64_t low = std::numeric_limits<int32_t>::min(),
                  int64_t high = std::numeric_limits<int32_t>::max()) {
    int64_t value = 0;
    if (next(expected).get(value) != simdjson::SUCCESS) fail(expected);
    if (value < low || value > high) fail(fmt::format("{}, {} to {}; found {}", expected, low, high, value));
    return value;
  }
  int32_t index(const char* expected) { return integer(expected, 0, std::numeric_limits<int32_t>::max()); }
  /// 0 and 1, or false and true, which TVM's reader accepts too.
  bool flag(const char* expected) {
    const element value = next(expected);
    bool truth = false;
    if (value.get(truth) == simdjson::SUCCESS) return truth;
    int64_t number = 0;
    if (value.get(number) != simdjson::SUCCESS || number < 0 || number > 1) fail(expected);
    return number == 1;
  }

  void text(ScheduleStep& step, const char* expected) {
    std::string_view value;
    if (next(expected).get(value) != simdjson::SUCCESS) fail(expected);
    step.text_begin = steps_.text.size();
    step.text_size = value.size();
    steps_.text += value;
  }

  /// A list of integers not below `least`; null is 0 if `open` allows it.
  void list(ScheduleStep& step, const char* expected, bool open, int32_t least) {
    simdjson::dom::array values;
    if (next(expected).get(values) != simdjson::SUCCESS) fail(expected);
    step.list_begin = steps_.numbers.size();
    for (const element value : values) {
      int64_t number = 0;
      if (open && value.is_null()) {
        steps_.numbers.push_back(0);
        continue;
      }
      if (value.get(number) != simdjson::SUCCESS || number < least || number > std::numeric_limits<int32_t>::max())
        fail(expected);
      steps_.numbers.push_back(number);
    }
    step.list_size = std::ssize(steps_.numbers) - step.list_begin;
    if (step.list_size > kLongestList) fail(fmt::format("{}, at most {}", expected, kLongestList));
  }

  void end() {
    if (item_ != end_) fail("no further argument");
  }

  [[noreturn]] void fail(std::string_view expected) const {
    throw DataError("step {}{}{}: argument {}: expected {}", step_, name_.empty() ? "" : " ", name_.substr(0, 16),
                    position_ == 0 ? 0 : position_ - 1, expected);
  }

 private:
  element next(std::string_view expected) {
    ++position_;
    if (item_ == end_) fail(expected);
    const element value = *item_;
    ++item_;
    return value;
  }

  simdjson::dom::array::iterator item_, end_;
  size_t step_, position_ = 0;
  std::string_view name_;
  ScheduleSteps& steps_;
};

ScheduleStep read_step(Arguments& arguments) {
  const std::string_view name = arguments.name();
  const auto is = [&](StepKind kind) { return name == step_name(kind); };
  ScheduleStep step;
  size_t kind = 0;
  while (kind < kStepKinds && !is(static_cast<StepKind>(kind))) ++kind;
  if (kind == kStepKinds) arguments.fail("AN, FU, PR, RE, SP, FSP, FFSP, SA, CA, CI, CR, CHR, CHW or RF");
  step.kind = static_cast<StepKind>(kind);
  step.stage = arguments.index("a stage");
  switch (step.kind) {
    case StepKind::annotation:
      step.iterator = arguments.index("an iterator");
      step.source = arguments.integer("an annotation", 0, kAnnotations - 1);
      break;
    case StepKind::pragma:
      step.iterator = arguments.index("an iterator");
      arguments.text(step, "a pragma");
      break;
    case StepKind::fuse:
    case StepKind::reorder: arguments.list(step, "a list of iterators", false, 0); break;
    case StepKind::split:
      step.iterator = arguments.index("an iterator");
      step.extent = arguments.integer("an extent, 0 if unknown", 0);
      arguments.list(step, "a list of lengths, 1 or more, or null", true, 1);
      step.inner_to_outer = arguments.flag("0 or 1 (inner to outer)");
      break;
    case StepKind::follow_split:
      step.iterator = arguments.index("an iterator");
      step.source = arguments.index("a step");
      step.count = arguments.integer("a number of splits", 1, kLongestList);
      break;
    case StepKind::follow_fused_split:
      step.iterator = arguments.index("an iterator");
      arguments.list(step, "a list of steps", false, 0);
      step.source = arguments.index("a level");
      step.inner_to_outer = arguments.flag("0 or 1 (factor)");
      break;
    case StepKind::storage_align:
      step.iterator = arguments.index("an iterator");
      step.count = arguments.integer("a factor");
      step.extent = arguments.integer("an offset");
      break;
    case StepKind::compute_at:
      step.source = arguments.index("a stage to attach to");
      step.count = arguments.index("an iterator to attach to");
      break;
    case StepKind::compute_inline:
    case StepKind::compute_root: break;
    case StepKind::cache_read:
      arguments.text(step, "a scope");
      arguments.list(step, "a list of reading stages", false, 0);
      break;
    case StepKind::cache_write: arguments.text(step, "a scope"); break;
    case StepKind::rfactor:
      step.iterator = arguments.index("an iterator");
      step.source = arguments.integer("the position of the factored axis");
      break;
  }
  arguments.end();
  return step;
}

/// Reads a list of steps (`[["SP", 2, 0, 1, [1, 1], 1], ...]`) into `steps`, replacing what it held.
void read_steps(const simdjson::dom::array& list, ScheduleSteps& steps) {
  steps.clear();
  for (const element item : list) {
    const size_t number = steps.steps.size();
    if (number == kMostSteps) throw DataError("more than {} steps", kMostSteps);
    simdjson::dom::array arguments;
    if (item.get(arguments) != simdjson::SUCCESS)
      throw DataError("step {}: expected a list with its name and arguments", number);
    Arguments read(arguments, number, steps);
    steps.steps.push_back(read_step(read));
  }
}

using simdjson::dom::array;

/// Marks a failed measurement: a cost of at least this many seconds. TVM writes 1e10.
constexpr double kFailedCost = 1e10;

/// `found` is an element, or the result of looking for one.
template <class T>
T get(const auto& found, std::string_view what, std::string_view expected) {
  T value;
  if (found.get(value) != simdjson::SUCCESS) throw DataError("{}: expected {}", what, expected);
  return value;
}

void read_hardware(const array& values, HardwareParameters& hardware) {
  auto& [cores, vector_bytes, line, shared, local, threads, vthreads, warp] = hardware;
  int64_t* const fields[] = {&cores, &vector_bytes, &line, &shared, &local, &threads, &vthreads, &warp};
  size_t count = 0;
  for (const element value : values) {
    if (count == std::size(fields)) throw DataError("i[0][2]: more than 8 values, expected the 8 hardware parameters");
    *fields[count++] = get<int64_t>(value, "i[0][2]", "integers (hardware parameters)");
  }
  if (count != std::size(fields)) throw DataError("i[0][2]: {} values, expected the 8 hardware parameters", count);
}

/// `[workload_key, target, hardware, target_host, layout_rewrite, [input names]]`, the last four optional.
void read_task(const array& task, TuningRecord& record) {
  record.target.clear();
  record.target_host.clear();
  record.hardware = {};
  record.layout_rewrite = 0;
  const size_t values = task.size();
  if (values > 0) record.workload_key = get<std::string_view>(task.at(0), "i[0][0]", "a workload key");
  if (values > 1) record.target = get<std::string_view>(task.at(1), "i[0][1]", "a target");
  if (values > 2) read_hardware(get<array>(task.at(2), "i[0][2]", "a list (hardware parameters)"), record.hardware);
  if (values > 3) record.target_host = get<std::string_view>(task.at(3), "i[0][3]", "a target");
  if (values > 4) record.layout_rewrite = get<int64_t>(task.at(4), "i[0][4]", "an integer (layout rewrite)");
  if (values > 5) get<array>(task.at(5), "i[0][5]", "a list of input names");
  if (values > 6) throw DataError("i[0]: more than 6 values, expected a task");
  if (values < 2) throw DataError("i[0]: {} values, expected a workload key and a target", values);
}

/// `[[costs], error, all_cost, timestamp]`.
void read_result(const array& result, TuningRecord& record) {
  if (result.size() != 4) throw DataError("r: {} values, expected costs, error, all_cost and timestamp", result.size());
  record.costs.clear();
  auto item = result.begin();
  const auto costs = get<array>(*item, "r[0]", "a list of costs");
  for (const element cost : costs) record.costs.push_back(get<double>(cost, "r[0]", "seconds"));
  const auto error = get<int64_t>(*++item, "r[1]", "an error number");
  if (error < 0 || std::cmp_greater_equal(error, kRecordErrors))
    throw DataError("r[1]: error {}, expected 0 to {}", error, kRecordErrors - 1);
  record.error = static_cast<RecordError>(error);
  record.all_cost = get<double>(*++item, "r[2]", "seconds");
  record.timestamp = get<double>(*++item, "r[3]", "seconds since 1970");
  if (record.error != RecordError::none) return;
  if (record.costs.empty()) throw DataError("r[0]: no cost, though error is 0");
  for (const double cost : record.costs)
    if (!(cost > 0.0) || cost >= kFailedCost)
      throw DataError("r[0]: cost {}, though error is 0: expected seconds above 0 and below {:g}", cost, kFailedCost);
}

/// All of a record but its line number and its result.
void read_schedule(const element& root, TuningRecord& record) {
  const auto input = get<array>(root["i"], "i", "a list with task and state");
  if (input.size() != 2) throw DataError("i: {} values, expected task and state", input.size());
  read_task(get<array>(input.at(0), "i[0]", "a list (task)"), record);
  const auto state = get<array>(input.at(1), "i[1]", "a list (state)");
  if (state.size() != 2) throw DataError("i[1]: {} values, expected stages and steps", state.size());
  try {
    read_steps(get<array>(state.at(1), "i[1][1]", "a list of steps"), record.schedule);
  } catch (const DataError& error) {
    throw DataError("i[1][1]: {}", error.what());
  }
  std::string_view version;
  record.version.clear();
  if (root["v"].get(version) == simdjson::SUCCESS) record.version = version;
}

}  // namespace

struct RecordParser::Parser {
  simdjson::dom::parser json{LineSource::kLongestLine + 1};
};

RecordParser::RecordParser() : parser_(std::make_unique<Parser>()) {}
RecordParser::~RecordParser() = default;

void RecordParser::parse(std::string_view text, TuningRecord& record, bool measured, bool padded) {
  element root;
  if (const auto error = parser_->json.parse(text.data(), text.size(), !padded).get(root))
    throw DataError("no JSON: {}", simdjson::error_message(error));
  if (!root.is_object()) throw DataError("expected a JSON object with i, r and v");
  record.line = 0;
  read_schedule(root, record);
  if (measured) return read_result(get<array>(root["r"], "r", "a list (result)"), record);
  record.error = RecordError::none;
  record.costs.clear();
  record.all_cost = record.timestamp = 0.0;
}

std::shared_ptr<const std::vector<bool>> line_set(const std::vector<int64_t>& lines, const std::string& origin) {
  auto set = std::make_shared<std::vector<bool>>();
  for (const int64_t line : lines) {
    if (line < 0 || line > std::numeric_limits<int32_t>::max())
      throw DataError("{}: line {}, expected 0 or more", origin, line);
    if (std::ssize(*set) <= line) set->resize(line + 1);
    (*set)[line] = true;
  }
  return set;
}

std::vector<std::string> record_file_names(const std::vector<std::filesystem::path>& files) {
  const auto stem_of = [](const std::filesystem::path& file) {
    const auto name = file.filename().string();
    return name.substr(0, name.find('.'));
  };
  std::map<std::string, int64_t> counts;
  for (const auto& file : files) ++counts[stem_of(file)];
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(counts.at(stem_of(file)) > 1 ? file.string() : stem_of(file));
  return names;
}

std::string group_name(const std::string& workload_key) {
  std::string name;
  for (const char c : workload_key)
    if (c != '"' && c != ' ' && c != '\\') name += c == '/' ? '_' : c;
  return name;
}

int64_t RecordCounts::failed() const { return std::accumulate(errors.begin(), errors.end(), int64_t{0}); }

RecordReader::RecordReader(const std::filesystem::path& file, RecordShare share) : lines_(file), share_(share) {
  expect_form(file, {FileForm::records}, "tuning records of auto_scheduler (JSON lines)");
  if (share.parts < 1 || share.part < 0 || share.part >= share.parts)
    throw DataError("{}: part {} of {}, expected one of them", file.string(), share.part, share.parts);
}

bool RecordReader::next(TuningRecord& record) { return read(record, false); }

bool RecordReader::next_with_failed(TuningRecord& record) { return read(record, true); }

bool RecordReader::read(TuningRecord& record, bool with_failed) {
  static_assert(LineSource::kPadding >= simdjson::SIMDJSON_PADDING);
  while (const auto line = lines_.next()) {
    if (!share_.has(lines_.line_number())) continue;
    ++counts_.lines;
    if (line->text.empty() || line->text[0] == '#' || line->text[0] == ' ') {
      ++counts_.skipped;
      continue;
    }
    try {
      if (line->too_long) throw DataError("longer than {} bytes, expected one record", LineSource::kLongestLine);
      parser_.parse(line->text, record, true, true);
    } catch (const DataError& error) {
      ++counts_.malformed;
      if (counts_.first_malformed.size() < RecordCounts::kKept)
        counts_.first_malformed.push_back({lines_.line_number(), error.what()});
      continue;
    }
    record.line = lines_.line_number();
    if (record.error != RecordError::none) {
      ++counts_.errors[index_of(record.error)];
      if (!with_failed) continue;
    }
    ++counts_.records;
    return true;
  }
  return false;
}

}  // namespace foretime::data
