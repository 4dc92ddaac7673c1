#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <simdjson.h>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/records/record_json.h"
#include "data/frontends/ansor/replay/replay.h"

/// Small DAGs and schedules for tests, as files would have them.
namespace foretime::testing {
using namespace data;

inline std::string input_stage(int id, std::string_view name, std::string_view shape) {
  return fmt::format(R"({{"id": {}, "name": "{}", "dtype": "float32", "shape": {}, "kind": "{}"}})", id, name, shape,
                     "place"
                     "holder");
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

/// Steps from their JSON.
inline ScheduleSteps steps_of(std::string_view json) {
  simdjson::dom::parser parser;
  ScheduleSteps steps;
  read_steps(simdjson::dom::array(parser.parse(json.data(), json.size())), steps);
  return steps;
}

inline LoopNest replayed(const std::shared_ptr<const ComputeDag>& dag, std::string_view json) {
  Replayer replayer;
  LoopNest nest;
  replayer.replay(dag, steps_of(json), nest);
  return nest;
}

/// `name annotation extent` of a stage's loops, one a line.
inline std::string loops_of(const LoopNest& nest, size_t stage) {
  std::string out;
  for (const NestIterator& iterator : nest.stages[stage].iterators)
    out += fmt::format("{} {} {}\n", iterator_name(nest, iterator), annotation_name(iterator.annotation),
                       bound_text(nest, nest.variable(iterator).extent));
  return out;
}

}  // namespace foretime::testing
