#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::data {

/// Lists the schedule primitives of TVM's auto_scheduler in the order of their numbers; comments: names in records.
enum class StepKind : uint8_t {
  annotation,          // AN
  fuse,                // FU
  pragma,              // PR
  reorder,             // RE
  split,               // SP
  follow_split,        // FSP
  follow_fused_split,  // FFSP
  storage_align,       // SA
  compute_at,          // CA
  compute_inline,      // CI
  compute_root,        // CR
  cache_read,          // CHR
  cache_write,         // CHW
  rfactor,             // RF
};
constexpr size_t kStepKinds = 14;

const char* step_name(StepKind kind);  // AN, FU, ...

/// Says how a loop is executed; the values are the numbers in records.
enum class Annotation : uint8_t {
  none,
  unroll,
  vectorize,
  parallel,
  vthread,
  block_x,
  thread_x,
  block_y,
  thread_y,
  block_z,
  thread_z,
  tensorize,
};
constexpr int64_t kAnnotations = 12;

const char* annotation_name(Annotation annotation);  // none, unroll, ..., blockIdx.x, ...
/// Returns whether an annotation binds a loop to virtual threads, blocks or threads of a GPU.
inline bool binds_thread(Annotation annotation) {
  return annotation >= Annotation::vthread && annotation <= Annotation::thread_z;
}

/// Describes one step of a schedule. The used fields depend on its kind; stages, iterators and steps are numbers.
struct ScheduleStep {
  StepKind kind = StepKind::annotation;
  bool inner_to_outer = false;  // SP: lengths are of inner loops; FFSP: factor rather than number of parts
  int32_t stage = 0;            // stage that the step changes
  int32_t iterator = 0;         // AN, PR, SP, FSP, FFSP, SA, RF: iterator of the stage
  int32_t source = 0;  // FSP: step; AN: annotation; CA: target stage; RF: position of the new axis; FFSP: level
  int32_t count = 0;   // FSP: number of splits; CA: iterator of the target stage; SA: factor
  int64_t extent = 0;  // SP: iterations of the iterator, 0 if unknown; SA: offset
  /// Range in ScheduleSteps::numbers. FU, RE: iterators; SP: lengths, 0 if open; FFSP: steps; CHR: reading stages.
  uint32_t list_begin = 0, list_size = 0;
  uint32_t text_begin = 0, text_size = 0;  // range in ScheduleSteps::text; PR: the pragma; CHR, CHW: the storage scope
};

/// Holds the steps of one schedule in three arrays that keep their memory from record to record.
struct ScheduleSteps {
  std::vector<ScheduleStep> steps;
  std::vector<int32_t> numbers;
  std::string text;

  std::span<const int32_t> list(const ScheduleStep& step) const {
    return std::span(numbers).subspan(step.list_begin, step.list_size);
  }
  std::string_view text_of(const ScheduleStep& step) const {
    return std::string_view(text).substr(step.text_begin, step.text_size);
  }
  void clear() {
    steps.clear();
    numbers.clear();
    text.clear();
  }
};

/// Returns a hash of the steps of a schedule, the same in every run and on every machine.
uint64_t schedule_hash(const ScheduleSteps& schedule);

/// Says why a measurement failed; the values are the numbers in records.
enum class RecordError : uint8_t {
  none,
  instantiation,
  host_compile,
  device_compile,
  runtime,
  wrong_answer,
  build_timeout,
  run_timeout,
  unknown,
};
constexpr size_t kRecordErrors = 9;

const char* record_error_name(RecordError error);  // none, instantiation, host compile, …

/// Holds auto_scheduler's eight hardware parameters, in the order of records; all 0 if the record lacks them.
struct HardwareParameters {
  int64_t cores = 0, vector_bytes = 0, cache_line_bytes = 0, shared_memory_per_block = 0, local_memory_per_block = 0,
          threads_per_block = 0, vthread_extent = 0, warp_size = 0;
};

/// Holds one line of a search log: a schedule of a workload with its measurement.
struct TuningRecord {
  int64_t line = 0;                  // 1-based
  std::string workload_key, target;  // target: TVM's text, such as `llvm -mcpu=znver4`
  std::string target_host, version;  // version: of the record's format; both "" if the record lacks them
  HardwareParameters hardware;
  int64_t layout_rewrite = 0;  // 0: TVM measured with weights in their given order; 1, 2: see NestProgram
  ScheduleSteps schedule;
  RecordError error = RecordError::none;
  std::vector<double> costs;  // measured run times in seconds, one for each repeat
  double all_cost = 0.0;      // seconds that the measurement took, compilation included
  double timestamp = 0.0;     // time of the measurement in seconds since 1970

  /// Returns a hash of workload key, target, schedule, error, costs and times, equal for copies of one line of a log.
  uint64_t measurement_hash() const;
  double mean_cost() const;  // mean of `costs`; infinite if the measurement failed, NaN without costs
};

}  // namespace foretime::data
