#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"
#include "tests/support/fuzzing.h"
#include "tests/support/paths.h"

/// Small DAGs and schedules for tests, as files would have them.
namespace foretime::testing {

using namespace data;

/// Text of a bound, over loop names.
inline std::string bound_text(const LoopNest& nest, const Affine& bound) {
  return nest.pool.to_text(bound, [&](int32_t id) { return loop_name(nest, id < 0 ? ~id : id); });
}

inline std::string input_stage(int id, std::string_view name, std::string_view shape) {
  constexpr const char* kKind = "placeholder";  // TVM's word
  return fmt::format(R"({{"id": {}, "name": "{}", "dtype": "float32", "shape": {}, "kind": "{}"}})", id, name, shape,
                     kKind);
}

/// A product of two matrices: A, B, C.
inline std::shared_ptr<const ComputeDag> matmul(int64_t rows, int64_t columns, int64_t inner) {
  const std::string table = fmt::format(
      R"json({{"workload_key": "[\"matmul\", {0}, {1}, {2}]", "stages": [{3}, {4},
      {{"id": 2, "name": "C", "dtype": "float32", "shape": [{0}, {1}], "kind": "compute", "axes": [["i", {0}], ["j", {1}]],
        "reduce_axes": [["k", {2}]], "combiner": "sum", "body": "(A[i, k]*B[k, j])", "tag": "",
        "reads": [{{"op": 0, "name": "A", "indices": ["i", "k"]}}, {{"op": 1, "name": "B", "indices": ["k", "j"]}}],
        "is_output": true, "flops": 1}}]}})json",
      rows, columns, inner, input_stage(0, "A", fmt::format("[{}, {}]", rows, inner)),
      input_stage(1, "B", fmt::format("[{}, {}]", inner, columns)));
  return std::make_shared<const ComputeDag>(parse_compute_dag(table));
}

/// Padding, a convolution (3 × 3, stride 1) and a maximum with 0 over one image: data, pad, kernel, conv, relu.
inline std::shared_ptr<const ComputeDag> convolution(int64_t size, int64_t channels) {
  const std::string table = fmt::format(
      R"json({{"workload_key": "[\"convolution\", {0}, {1}]", "stages": [{3},
      {{"id": 1, "name": "pad", "dtype": "float32", "shape": [{1}, {2}, {2}], "kind": "compute",
        "axes": [["i0", {1}], ["i1", {2}], ["i2", {2}]], "reduce_axes": [], "combiner": null,
        "body": "tir.if_then_else(((i1 >= 1) && (i1 < {5})), data[i0, (i1 - 1), (i2 - 1)], 0f)", "tag": "pad",
        "reads": [{{"op": 0, "name": "data", "indices": ["i0", "(i1 - 1)", "(i2 - 1)"]}}], "is_output": false}}, {4},
      {{"id": 3, "name": "conv", "dtype": "float32", "shape": [{1}, {0}, {0}], "kind": "compute",
        "axes": [["ff", {1}], ["yy", {0}], ["xx", {0}]], "reduce_axes": [["rc", {1}], ["ry", 3], ["rx", 3]],
        "combiner": "sum", "body": "(pad[rc, (yy + ry), (xx + rx)]*kernel[ff, rc, ry, rx])", "tag": "",
        "reads": [{{"op": 1, "name": "pad", "indices": ["rc", "(yy + ry)", "(xx + rx)"]}},
                  {{"op": 2, "name": "kernel", "indices": ["ff", "rc", "ry", "rx"]}}], "is_output": false}},
      {{"id": 4, "name": "relu", "dtype": "float32", "shape": [{1}, {0}, {0}], "kind": "compute",
        "axes": [["i0", {1}], ["i1", {0}], ["i2", {0}]], "reduce_axes": [], "combiner": null,
        "body": "max(conv[i0, i1, i2], 0f)", "tag": "elemwise",
        "reads": [{{"op": 3, "name": "conv", "indices": ["i0", "i1", "i2"]}}], "is_output": true}}]}})json",
      size, channels, size + 2, input_stage(0, "data", fmt::format("[{}, {}, {}]", channels, size, size)),
      input_stage(2, "kernel", fmt::format("[{}, {}, 3, 3]", channels, channels)), size + 1);
  return std::make_shared<const ComputeDag>(parse_compute_dag(table));
}

/// What a layer norm is made of: A, T (the sums of a row and of its squares), norm, which reads both.
inline std::shared_ptr<const ComputeDag> sums_of_rows(int64_t rows, int64_t columns) {
  const std::string table = fmt::format(
      R"json({{"workload_key": "[\"sums\", {0}, {1}]", "stages": [{2},
      {{"id": 1, "name": "T", "dtype": "float32", "dtypes": ["float32", "float32"], "shape": [{0}], "kind": "compute",
        "axes": [["i", {0}]], "reduce_axes": [["k", {1}]], "combiner": "tuple",
        "body": "A[i, k], (A[i, k]*A[i, k])", "tag": "comm_reduce",
        "combine": {{"lhs": ["x0", "x1"], "rhs": ["y0", "y1"], "result": ["(x0 + y0)", "(x1 + y1)"]}},
        "reads": [{{"op": 0, "name": "A", "indices": ["i", "k"]}}, {{"op": 0, "name": "A", "indices": ["i", "k"]}},
                  {{"op": 0, "name": "A", "indices": ["i", "k"]}}], "is_output": false}},
      {{"id": 2, "name": "norm", "dtype": "float32", "shape": [{0}, {1}], "kind": "compute",
        "axes": [["ax0", {0}], ["ax1", {1}]], "reduce_axes": [], "combiner": null,
        "body": "((A[ax0, ax1] - T.v0[ax0])*T.v1[ax0])", "tag": "injective",
        "reads": [{{"op": 0, "name": "A", "indices": ["ax0", "ax1"]}}, {{"op": 1, "name": "T", "indices": ["ax0"]}},
                  {{"op": 1, "name": "T", "output": 1, "indices": ["ax0"]}}], "is_output": true}}]}})json",
      rows, columns, input_stage(0, "A", fmt::format("[{}, {}]", rows, columns)));
  return std::make_shared<const ComputeDag>(parse_compute_dag(table));
}

/// Steps from their JSON.
inline ScheduleSteps steps_of(std::string_view json) {
  TuningRecord record;
  RecordParser().parse(fmt::format(R"({{"i": [["key", "target"], [[], {}]]}})", json), record, false);
  return record.schedule;
}

inline LoopNest replayed(const std::shared_ptr<const ComputeDag>& dag, std::string_view json) {
  Replayer replayer;
  LoopNest nest;
  replayer.replay(dag, steps_of(json), nest);
  return nest;
}

/// `name annotation extent` of a stage's loops, one a line. TVM's names of the loops in expressions.
inline std::string loops_of(const LoopNest& nest, size_t stage) {
  std::string out;
  for (const NestIterator& iterator : nest.stages[stage].iterators)
    out += fmt::format("{} {} {}\n", loop_name(nest, iterator.variable), annotation_name(iterator.annotation),
                       bound_text(nest, nest.variable(iterator).extent));
  return out;
}

/// Those of all stages, each after its number.
inline std::string loops_of(const LoopNest& nest) {
  std::string out;
  for (size_t i = 0; i < nest.stages.size(); ++i) out += fmt::format("stage {}\n{}", i, loops_of(nest, i));
  return out;
}

/// Changes schedules at random.
class Mutator : public Draw {
 public:
  using Draw::Draw;

  int32_t number(int32_t near) {
    constexpr int32_t kOdd[] = {0, 1, -1, 2, 3, 7, 64, 1000, 65536, 2147483647, -2147483647};
    if (below(3) == 0) return of(kOdd);
    return static_cast<int32_t>(
        std::clamp<int64_t>(int64_t{near} + static_cast<int64_t>(below(5)) - 2, -2147483647, 2147483647));
  }

  /// Up to `most` changes.
  void mutate(ScheduleSteps& schedule, size_t most) {
    for (size_t i = below(most) + 1; i-- > 0;) change(schedule);
  }

 private:
  void change(ScheduleSteps& schedule) {
    auto& steps = schedule.steps;
    if (steps.empty()) return;
    ScheduleStep& step = of(steps);
    switch (below(10)) {
      case 0: step.stage = number(step.stage); break;
      case 1: step.iterator = number(step.iterator); break;
      case 2:
        step.source =
            step.kind == StepKind::annotation ? static_cast<int32_t>(below(kAnnotations)) : number(step.source);
        break;
      case 3: step.count = std::max(1, number(step.count)); break;
      case 4:
        if (step.list_size > 0) schedule.numbers[step.list_begin + below(step.list_size)] = std::max(0, number(2));
        break;
      case 5:
        step.kind = static_cast<StepKind>(below(kStepKinds));
        if (step.kind == StepKind::annotation) step.source = static_cast<int32_t>(below(kAnnotations));
        step.count = std::max(1, step.count);
        break;
      case 6: step.list_size = static_cast<uint32_t>(below(step.list_size + 1)); break;
      case 7: std::swap(step, of(steps)); break;
      case 8:
        steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(below(steps.size())), steps[below(steps.size())]);
        break;
      default:
        if (below(2) == 0) {
          steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(below(steps.size())));
        } else {
          step.inner_to_outer = !step.inner_to_outer;
        }
        break;
    }
  }
};

/// The records of samples/ansor.
inline std::vector<TuningRecord> sample_records() {
  std::vector<TuningRecord> records;
  RecordReader reader(foretime::testing::samples_dir() / "ansor/records.jsonl.gz");
  TuningRecord record;
  while (reader.next(record)) records.push_back(record);
  return records;
}

}  // namespace foretime::testing
