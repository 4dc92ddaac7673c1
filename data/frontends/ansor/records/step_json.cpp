#include "data/frontends/ansor/records/step_json.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"

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
  int32_t index(const char* expected) {
    return static_cast<int32_t>(integer(expected, 0, std::numeric_limits<int32_t>::max()));
  }
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
    step.text_begin = static_cast<uint32_t>(steps_.text.size());
    step.text_size = static_cast<uint32_t>(value.size());
    steps_.text += value;
  }

  /// A list of integers not below `least`; null is 0 if `open` allows it.
  void list(ScheduleStep& step, const char* expected, bool open, int32_t least) {
    simdjson::dom::array values;
    if (next(expected).get(values) != simdjson::SUCCESS) fail(expected);
    step.list_begin = static_cast<uint32_t>(steps_.numbers.size());
    for (const element value : values) {
      int64_t number = 0;
      if (open && value.is_null()) {
        steps_.numbers.push_back(0);
        continue;
      }
      if (value.get(number) != simdjson::SUCCESS || number < least || number > std::numeric_limits<int32_t>::max())
        fail(expected);
      steps_.numbers.push_back(static_cast<int32_t>(number));
    }
    step.list_size = static_cast<uint32_t>(steps_.numbers.size()) - step.list_begin;
    if (step.list_size > kLongestList) fail(fmt::format("{}, at most {}", expected, kLongestList));
  }

  void end() {
    if (item_ != end_) fail("no further argument");
  }

  [[noreturn]] void fail(std::string_view expected) const {
    throw DataError(fmt::format("step {}{}{}: argument {}: expected {}", step_, name_.empty() ? "" : " ",
                                name_.substr(0, 16), position_ == 0 ? 0 : position_ - 1, expected));
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
      step.source = static_cast<int32_t>(arguments.integer("an annotation", 0, kAnnotations - 1));
      break;
    case StepKind::fuse:
      arguments.list(step, "a list of iterators", false, 0);
      break;
    case StepKind::pragma:
      step.iterator = arguments.index("an iterator");
      arguments.text(step, "a pragma");
      break;
    case StepKind::reorder:
      arguments.list(step, "a list of iterators", false, 0);
      break;
    case StepKind::split:
      step.iterator = arguments.index("an iterator");
      step.extent = arguments.integer("an extent, 0 if unknown", 0);
      arguments.list(step, "a list of lengths, 1 or more, or null", true, 1);
      step.inner_to_outer = arguments.flag("0 or 1 (inner to outer)");
      break;
    case StepKind::follow_split:
      step.iterator = arguments.index("an iterator");
      step.source = arguments.index("a step");
      step.count = static_cast<int32_t>(arguments.integer("a number of splits", 1, kLongestList));
      break;
    case StepKind::follow_fused_split:
      step.iterator = arguments.index("an iterator");
      arguments.list(step, "a list of steps", false, 0);
      step.source = arguments.index("a level");
      step.inner_to_outer = arguments.flag("0 or 1 (factor)");
      break;
    case StepKind::storage_align:
      step.iterator = arguments.index("an iterator");
      step.count = static_cast<int32_t>(arguments.integer("a factor"));
      step.extent = arguments.integer("an offset");
      break;
    case StepKind::compute_at:
      step.source = arguments.index("a stage to attach to");
      step.count = arguments.index("an iterator to attach to");
      break;
    case StepKind::compute_inline:
    case StepKind::compute_root:
      break;
    case StepKind::cache_read:
      arguments.text(step, "a scope");
      arguments.list(step, "a list of reading stages", false, 0);
      break;
    case StepKind::cache_write:
      arguments.text(step, "a scope");
      break;
    case StepKind::rfactor:
      step.iterator = arguments.index("an iterator");
      step.source = static_cast<int32_t>(arguments.integer("the position of the factored axis"));
      break;
  }
  arguments.end();
  return step;
}

}  // namespace

void read_steps(const simdjson::dom::array& list, ScheduleSteps& steps) {
  steps.clear();
  for (const element item : list) {
    const size_t number = steps.steps.size();
    if (number == kMostSteps) throw DataError(fmt::format("more than {} steps", kMostSteps));
    simdjson::dom::array arguments;
    if (item.get(arguments) != simdjson::SUCCESS)
      throw DataError(fmt::format("step {}: expected a list with its name and arguments", number));
    Arguments read(arguments, number, steps);
    steps.steps.push_back(read_step(read));
  }
}

}  // namespace foretime::data
