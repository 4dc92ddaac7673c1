#include "data/frontends/ansor/records/record_json.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/records/step_json.h"

namespace foretime::data {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

/// A measurement at or above this many seconds stands for none: TVM writes 1e10 for a failure.
constexpr double kFailedCost = 1e10;

/// `found` is an element, or the result of looking for one.
template <class T>
T get(const auto& found, std::string_view what, std::string_view expected) {
  T value;
  if (found.get(value) != simdjson::SUCCESS) throw DataError(fmt::format("{}: expected {}", what, expected));
  return value;
}

void read_hardware(const array& values, HardwareParameters& hardware) {
  int64_t* const fields[] = {&hardware.cores,
                             &hardware.vector_bytes,
                             &hardware.cache_line_bytes,
                             &hardware.shared_memory_per_block,
                             &hardware.local_memory_per_block,
                             &hardware.threads_per_block,
                             &hardware.vthread_extent,
                             &hardware.warp_size};
  size_t count = 0;
  for (const element value : values) {
    if (count == std::size(fields)) throw DataError("i[0][2]: more than 8 values, expected the 8 hardware parameters");
    *fields[count++] = get<int64_t>(value, "i[0][2]", "integers (hardware parameters)");
  }
  if (count != std::size(fields))
    throw DataError(fmt::format("i[0][2]: {} values, expected the 8 hardware parameters", count));
}

/// `[workload_key, target, hardware, target_host, layout_rewrite, [input names]]`, the last four optional.
void read_task(const array& task, TuningRecord& record) {
  record.target.clear();
  record.target_host.clear();
  record.hardware = {};
  record.layout_rewrite = 0;
  size_t position = 0;
  for (const element value : task) {
    switch (position++) {
      case 0:
        record.workload_key = get<std::string_view>(value, "i[0][0]", "a workload key");
        break;
      case 1:
        record.target = get<std::string_view>(value, "i[0][1]", "a target");
        break;
      case 2:
        read_hardware(get<array>(value, "i[0][2]", "a list (hardware parameters)"), record.hardware);
        break;
      case 3:
        record.target_host = get<std::string_view>(value, "i[0][3]", "a target");
        break;
      case 4:
        record.layout_rewrite = get<int64_t>(value, "i[0][4]", "an integer (layout rewrite)");
        break;
      case 5:
        get<array>(value, "i[0][5]", "a list of input names");
        break;
      default:
        throw DataError("i[0]: more than 6 values, expected a task");
    }
  }
  if (position < 2) throw DataError(fmt::format("i[0]: {} values, expected a workload key and a target", position));
}

/// `[[costs], error, all_cost, timestamp]`.
void read_result(const array& result, TuningRecord& record) {
  if (result.size() != 4)
    throw DataError(fmt::format("r: {} values, expected costs, error, all_cost and timestamp", result.size()));
  record.costs.clear();
  auto item = result.begin();
  const auto costs = get<array>(*item, "r[0]", "a list of costs");
  for (const element cost : costs) record.costs.push_back(get<double>(cost, "r[0]", "seconds"));
  const auto error = get<int64_t>(*++item, "r[1]", "an error number");
  if (error < 0 || error >= static_cast<int64_t>(kRecordErrors))
    throw DataError(fmt::format("r[1]: error {}, expected 0 to {}", error, kRecordErrors - 1));
  record.error = static_cast<RecordError>(error);
  record.all_cost = get<double>(*++item, "r[2]", "seconds");
  record.timestamp = get<double>(*++item, "r[3]", "seconds since 1970");
  if (record.error != RecordError::none) return;
  if (record.costs.empty()) throw DataError("r[0]: no cost, though error is 0");
  for (const double cost : record.costs) {
    if (!(cost > 0.0) || cost >= kFailedCost)
      throw DataError(fmt::format("r[0]: cost {}, though error is 0: expected seconds above 0", cost));
  }
}

}  // namespace

element parse_record_json(simdjson::dom::parser& parser, std::string_view text, bool padded) {
  element root;
  if (const auto error = parser.parse(text.data(), text.size(), !padded).get(root))
    throw DataError(fmt::format("no JSON: {}", simdjson::error_message(error)));
  if (!root.is_object()) throw DataError("expected a JSON object with i, r and v");
  return root;
}

void read_schedule(const element& root, TuningRecord& record) {
  const auto input = get<array>(root["i"], "i", "a list with task and state");
  if (input.size() != 2) throw DataError(fmt::format("i: {} values, expected task and state", input.size()));
  read_task(get<array>(input.at(0), "i[0]", "a list (task)"), record);
  const auto state = get<array>(input.at(1), "i[1]", "a list (state)");
  if (state.size() != 2) throw DataError(fmt::format("i[1]: {} values, expected stages and steps", state.size()));
  try {
    read_steps(get<array>(state.at(1), "i[1][1]", "a list of steps"), record.schedule);
  } catch (const DataError& error) {
    throw DataError(fmt::format("i[1][1]: {}", error.what()));
  }
  std::string_view version;
  record.version.clear();
  if (root["v"].get(version) == simdjson::SUCCESS) record.version = version;
}

void read_record(const element& root, TuningRecord& record) {
  read_schedule(root, record);
  read_result(get<array>(root["r"], "r", "a list (result)"), record);
}

}  // namespace foretime::data
