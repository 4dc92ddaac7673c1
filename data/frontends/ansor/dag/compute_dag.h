#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/dag/expression.h"

namespace foretime::data {

/// One loop of a stage as its definition has it: it counts from 0.
struct DagAxis {
  std::string name;
  int64_t extent = 0;     // 0 where it depends on the stage's spatial axes, as in adaptive pooling
  int32_t symbolic = -1;  // then the expression of the extent
};

/// One access of the body to another stage.
struct DagRead {
  int32_t stage = 0;
  int32_t output = 0;              // which of its tensors
  int32_t body = 0;                // in which of the reader's bodies
  std::vector<int32_t> indices{};  // expressions over the reader's axes
};

struct DagStage {
  std::string name;
  std::vector<std::string> types;      // of the tensors that it makes, float32: one, or several (sums of x and of x²)
  std::string tag;                     // TVM's tag of the operator, may be empty
  std::string combiner;                // sum, max, min, tuple, or another word; empty: no reduction
  std::string scope;                   // of the storage of a stage that a schedule inserted; empty: not said
  bool input = false, output = false;  // an input of the program has no body
  std::vector<int64_t> shape;
  std::vector<DagAxis> axes, reduce_axes;
  std::vector<DagRead> reads;   // in the order of the body; an access that occurs twice may stand twice
  std::string body_text;        // of a reduction: what is combined; of several tensors with commas between
  std::vector<int32_t> bodies;  // the expression of each tensor, variables and loads resolved; none where TVM printed
                                // what parse_expression does not know
  /// Of a tuple: what becomes of each tensor. Variable t is tensor t so far, outputs() + t what body t gives. None
  /// where a table does not say.
  std::vector<int32_t> combine;
  std::vector<std::string> operands;  // the names of these variables, for printing

  size_t outputs() const { return types.size(); }
  size_t axis_count() const { return axes.size() + reduce_axes.size(); }
  /// Spatial axes, then reduction axes: a variable's target counts them so.
  const DagAxis& axis(size_t position) const {
    return position < axes.size() ? axes[position] : reduce_axes[position - axes.size()];
  }
  std::vector<std::string> axis_names() const;  // of all of them
};

/// What a tensor program computes: its stages in topological order (a stage reads only stages before it), as
/// TVM's auto_scheduler numbers them. FORMATS: `dags.jsonl`.
struct ComputeDag {
  std::string workload_key;  // empty if unknown
  ExpressionTree expressions;
  std::vector<DagStage> stages;
  double flops = 0.0;  // arithmetic operations of all stages, as TVM counts them

  /// Numbers all tensors: those that stages make first as the stages, the second ones after these, and so on.
  size_t memory(size_t stage, size_t output) const { return output * stages.size() + stage; }
  size_t stage_of(size_t memory) const { return memory % stages.size(); }
  size_t output_of(size_t memory) const { return memory / stages.size(); }
  /// One above the largest number.
  size_t memories() const;
};

/// Largest extents and shapes: products of a few still fit into 64 bits.
constexpr int64_t kLargestExtent = int64_t{1} << 31;
constexpr size_t kMostDagStages = 1024, kMostAxes = 64, kMostOutputs = 16;

/// Appends the accesses in the tree of `root` in the order of their evaluation.
void collect_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& loads);

/// Arithmetic operations of all stages, as TVM's FlopEstimator counts them: on values of each stage's type, loads and
/// indices free. Operators may give TVM another count than that (Winograd's convolutions that of the plain ones).
double estimate_flops(const ComputeDag& dag);

/// Throws DataError, which names the stage, unless the DAG is what its comments say; sizes are bounded.
void validate(const ComputeDag& dag);

/// As TVM prints a DAG, one line a stage: `C(i, j) += (A[i, k]*B[k, j])`.
std::string to_text(const ComputeDag& dag);

/// Reads a compute DAG from a line of JSON (FORMATS: dags.jsonl). Throws DataError, which names stage and field.
ComputeDag parse_compute_dag(std::string_view json);

}  // namespace foretime::data
