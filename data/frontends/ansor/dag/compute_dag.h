#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/dag/expression.h"

namespace foretime::data {

/// Describes one loop of a stage in its definition; the loop counts from 0.
struct DagAxis {
  std::string name;
  int64_t extent = 0;     // iterations; 0 if their number depends on the stage's spatial axes, as in adaptive pooling
  int32_t symbolic = -1;  // number in ComputeDag::expressions of an extent that depends on them; -1: constant
};

/// Describes one load in a stage's body: of an element of a tensor of another stage.
struct DagRead {
  int32_t stage = 0;   // stage that is read
  int32_t output = 0;  // index of the tensor that is read, among the tensors of that stage
  int32_t body = 0;    // index of the body that reads, among the bodies of the reading stage
  /// Holds the index in each dimension: expressions (numbers in ComputeDag::expressions) over the reading stage's axes.
  std::vector<int32_t> indices{};
};

/// Describes one stage of a compute DAG.
struct DagStage {
  std::string name;
  std::vector<std::string> types;          // TVM type of each tensor that the stage computes; usually one
  std::string tag;                         // TVM's tag of the operator; may be empty
  std::string combiner;                    // sum, max, min, tuple, or another word; empty: no reduction
  std::string scope;                       // storage scope of a stage that a schedule inserted; empty: none
  bool input = false, output = false;      // an input of the program, which has no body; an output of the program
  std::vector<int64_t> shape;              // sizes of each tensor
  std::vector<DagAxis> axes, reduce_axes;  // spatial axes, one for each dimension of the shape; reduction axes
  std::vector<DagRead> reads;              // loads in the order of the bodies; a repeated load may be listed once
  std::string body_text;                   // TVM's text of the bodies, separated by commas
  /// Holds the expression of each tensor; for a reduction, the value that is combined. Variables and loads are
  /// resolved. Empty if parse_expression does not understand body_text.
  std::vector<int32_t> bodies;
  /// Holds, for a reduction of several tensors, the expression of each tensor's new value. Variable t is the value of
  /// tensor t so far, variable outputs() + t the value of body t. Empty if the file does not give it.
  std::vector<int32_t> combine;
  std::vector<std::string> operands;  // names of the variables of `combine`, for printing

  size_t outputs() const { return types.size(); }  // number of tensors
  size_t axis_count() const { return axes.size() + reduce_axes.size(); }
  /// Returns an axis by position, spatial axes before reduction axes, like a variable's target.
  const DagAxis& axis(size_t position) const {
    return position < axes.size() ? axes[position] : reduce_axes[position - axes.size()];
  }
  std::vector<std::string> axis_names() const;  // spatial axes, then reduction axes
};

/// Describes the computation of a tensor program: its stages in topological order (a stage reads only earlier ones),
/// numbered as in TVM's auto_scheduler. docs/reference/tuning-records.md describes its file form.
struct ComputeDag {
  std::string workload_key;  // empty if unknown
  ExpressionTree expressions;
  std::vector<DagStage> stages;
  double flops = 0.0;  // number of arithmetic operations of all stages, counted as in TVM (estimate_flops)

  /// Returns the number of a stage's tensor `output`: first tensors of all stages come first, then second ones, …
  size_t memory(size_t stage, size_t output) const { return output * stages.size() + stage; }
  size_t stage_of(size_t memory) const { return memory % stages.size(); }   // stage of a tensor's number
  size_t output_of(size_t memory) const { return memory / stages.size(); }  // index of the tensor in that stage
  /// Returns a number above all results of memory(): that of the stages times the most tensors of a stage.
  size_t memories() const;
};

constexpr int64_t kLargestExtent = int64_t{1} << 31;  // limit of extents and of sizes of shapes
constexpr size_t kMostDagStages = 1024, kMostAxes = 64, kMostOutputs = 16;

/// Appends the numbers of the load nodes below and at `root`; loads in an index come before the load with that index.
void collect_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& loads);

/// Returns the number of arithmetic operations of all stages, counted as by TVM's FlopEstimator: operations on values
/// of the stage's type; loads and indices do not count. Operators may state other numbers, as Winograd's do.
double estimate_flops(const ComputeDag& dag);

/// Throws DataError, which names the stage, if a reference of the DAG (to a stage, tensor or axis) is wrong, numbers of
/// axes, indices, bodies or results do not fit each other, or a size exceeds the limits above.
void validate(const ComputeDag& dag);

/// Returns a DAG as TVM prints it, one line for each stage: `C(i, j) += (A[i, k]*B[k, j])`.
std::string to_text(const ComputeDag& dag);

/// Parses a compute DAG from a line of JSON (docs/reference/tuning-records.md). Without flop_ct in it, `flops` is
/// estimate_flops(). Throws DataError, which names stage and field.
ComputeDag parse_compute_dag(std::string_view json);

}  // namespace foretime::data
