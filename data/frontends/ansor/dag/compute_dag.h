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
  int64_t extent = 0;     // 0 if it depends on the stage's spatial axes, as in adaptive pooling
  int32_t symbolic = -1;  // index in ComputeDag::expressions of the extent if it depends on spatial axes; -1: constant
};

/// Describes one access of a stage's body to another stage.
struct DagRead {
  int32_t stage = 0;
  int32_t output = 0;              // index of the tensor that is read
  int32_t body = 0;                // index of the reader's body
  std::vector<int32_t> indices{};  // expressions over the reader's axes
};

/// Describes one stage of a compute DAG.
struct DagStage {
  std::string name;
  std::vector<std::string> types;      // TVM type of each tensor of the stage; several for sums of x and of x²
  std::string tag;                     // TVM's tag of the operator; may be empty
  std::string combiner;                // sum, max, min, tuple, or another word; empty: no reduction
  std::string scope;                   // storage scope of a stage that a schedule inserted; empty: none
  bool input = false, output = false;  // input: a program input, which has no body
  std::vector<int64_t> shape;
  std::vector<DagAxis> axes, reduce_axes;
  std::vector<DagRead> reads;   // order of the body; a repeated access may be repeated
  std::string body_text;        // reduction: the combined expressions, separated by commas
  std::vector<int32_t> bodies;  // expression of each tensor, variables and loads resolved; empty if TVM's text has
                                // what parse_expression does not know
  /// Holds the combiner of a tuple: the new value of each tensor. Variable t is the value of tensor t so far, variable
  /// outputs() + t the value of body t. Empty if the table does not give it.
  std::vector<int32_t> combine;
  std::vector<std::string> operands;  // names of these variables, for printing

  size_t outputs() const { return types.size(); }
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
  double flops = 0.0;  // arithmetic operations of all stages, counted as in TVM

  /// Returns the number of a tensor: first tensors of all stages have the stages' numbers, second tensors follow, and
  /// so on.
  size_t memory(size_t stage, size_t output) const { return output * stages.size() + stage; }
  size_t stage_of(size_t memory) const { return memory % stages.size(); }
  size_t output_of(size_t memory) const { return memory / stages.size(); }
  /// Returns the largest number of a tensor plus 1.
  size_t memories() const;
};

/// Bound extents and shapes: products of a few still fit into 64 bits.
constexpr int64_t kLargestExtent = int64_t{1} << 31;
constexpr size_t kMostDagStages = 1024, kMostAxes = 64, kMostOutputs = 16;

/// Appends the loads in the tree of `root` in the order of their evaluation.
void collect_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& loads);

/// Returns the arithmetic operations of all stages, counted as by TVM's FlopEstimator: on values of each stage's type;
/// loads and indices are free. Operators may give TVM another count (Winograd convolutions that of the direct ones).
double estimate_flops(const ComputeDag& dag);

/// Throws DataError, which names the stage, unless the DAG satisfies the comments of its types; bounds sizes.
void validate(const ComputeDag& dag);

/// Returns a DAG as TVM prints it, one line for each stage: `C(i, j) += (A[i, k]*B[k, j])`.
std::string to_text(const ComputeDag& dag);

/// Parses a compute DAG from a line of JSON (docs/reference/tuning-records.md). Throws DataError, which names
/// stage and field.
ComputeDag parse_compute_dag(std::string_view json);

}  // namespace foretime::data
