#include "data/frontends/ansor/records/record.h"

#include <array>
#include <limits>
#include <numeric>

#include "base/checksum.h"
#include "base/index_range.h"

namespace foretime::data {

const char* step_name(StepKind kind) {
  constexpr const char* kNames[kStepKinds] = {"AN", "FU", "PR", "RE", "SP",  "FSP", "FFSP",
                                              "SA", "CA", "CI", "CR", "CHR", "CHW", "RF"};
  return kNames[index_of(kind)];
}

const char* annotation_name(Annotation annotation) {
  constexpr const char* kNames[kAnnotations] = {"none",        "unroll",     "vectorize",   "parallel",
                                                "vthread",     "blockIdx.x", "threadIdx.x", "blockIdx.y",
                                                "threadIdx.y", "blockIdx.z", "threadIdx.z", "tensorize"};
  return kNames[index_of(annotation)];
}

uint64_t schedule_hash(const ScheduleSteps& schedule) {
  Checksum sum;
  for (const ScheduleStep& step : schedule.steps) {
    const std::array<int64_t, 9> fields = {static_cast<int64_t>(step.kind),
                                           step.inner_to_outer,
                                           step.stage,
                                           step.iterator,
                                           step.source,
                                           step.count,
                                           step.extent,
                                           step.list_size,
                                           step.text_size};
    sum.add(std::as_bytes(std::span(fields)));
    sum.add(std::as_bytes(schedule.list(step)));
    sum.add(std::as_bytes(std::span(schedule.text_of(step))));
  }
  return sum.value();
}

uint64_t TuningRecord::measurement_hash() const {
  Checksum sum;
  for (const auto* text : {&workload_key, &target}) sum.add(std::as_bytes(std::span(*text)));
  sum.add(std::as_bytes(std::span(costs)));
  const std::array<double, 2> times = {all_cost, timestamp};
  sum.add(std::as_bytes(std::span(times)));
  const std::array<uint64_t, 3> rest = {schedule_hash(schedule), static_cast<uint64_t>(error), costs.size()};
  sum.add(std::as_bytes(std::span(rest)));
  return sum.value();
}

const char* record_error_name(RecordError error) {
  constexpr const char* kNames[kRecordErrors] = {"none",           "instantiation", "host compile",
                                                 "device compile", "run time",      "wrong answer",
                                                 "build timeout",  "run timeout",   "unknown"};
  return kNames[index_of(error)];
}

double TuningRecord::mean_cost() const {
  if (error != RecordError::none) return std::numeric_limits<double>::infinity();
  if (costs.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(costs.begin(), costs.end(), 0.0) / costs.size();
}

}  // namespace foretime::data
