#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::data {

/// The schedule primitives of TVM's auto_scheduler, as records name them.
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

/// What a loop is executed as; the numbers are those of records.
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
inline bool binds_thread(Annotation annotation) {
  return annotation >= Annotation::vthread && annotation <= Annotation::thread_z;
}

/// One step of a schedule. Which fields it uses depends on its kind (FORMATS: the table of steps).
struct ScheduleStep {
  StepKind kind = StepKind::annotation;
  bool inner_to_outer = false;  // SP; FFSP: factor rather than number of parts
  int32_t stage = 0;
  int32_t iterator = 0;  // AN, PR, SP, FSP, FFSP, SA, RF
  int32_t source = 0;    // FSP: step; AN: annotation; CA: target stage; RF: position of the factored axis; FFSP: level
  int32_t count = 0;     // FSP: number of splits; CA: target iterator; SA: factor
  int64_t extent = 0;    // SP: of the iterator, 0 if unknown; SA: offset
  uint32_t list_begin = 0, list_size = 0;  // FU, RE, SP (lengths, 0 where open), FFSP, CHR: in ScheduleSteps::numbers
  uint32_t text_begin = 0, text_size = 0;  // PR: pragma; CHR, CHW: scope: in ScheduleSteps::text
};

/// The steps of one schedule, in three arrays that keep their memory from record to record.
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

/// Equal for equal steps, also over runs and machines; TVM writes a schedule's steps in one way only.
uint64_t schedule_hash(const ScheduleSteps& schedule);

/// Why a measurement failed; the numbers are those of records.
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

const char* record_error_name(RecordError error);

/// Hardware as auto_scheduler describes it: all zeros if the record does not say.
struct HardwareParameters {
  int64_t cores = 0, vector_bytes = 0, cache_line_bytes = 0, shared_memory_per_block = 0, local_memory_per_block = 0,
          threads_per_block = 0, vthread_extent = 0, warp_size = 0;
};

/// One line of a search log: a schedule of a workload, with what was measured.
struct TuningRecord {
  int64_t line = 0;  // 1-based
  std::string workload_key, target, target_host, version;
  HardwareParameters hardware;
  int64_t layout_rewrite = 0;
  ScheduleSteps schedule;
  RecordError error = RecordError::none;
  std::vector<double> costs;  // seconds, one a repeat
  double all_cost = 0.0;      // seconds, with compilation
  double timestamp = 0.0;     // seconds since 1970

  /// Equal for copies of one line of a log: workload, target, schedule, all costs and the time agree.
  uint64_t measurement_hash() const;
  double mean_cost() const;  // infinite where the measurement failed, NaN without costs
};

}  // namespace foretime::data
