#pragma once

#include <cstdint>
#include <string>
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
  std::vector<int32_t> indices;  // expressions over the reader's axes
};

struct DagStage {
  std::string name;
  std::string type;                    // float32
  std::string tag;                     // TVM's tag of the operator, may be empty
  std::string combiner;                // sum, max, min, or another word; empty: no reduction
  std::string scope;                   // of the storage of a stage that a schedule inserted; empty: not said
  bool input = false, output = false;  // an input of the program has no body
  std::vector<int64_t> shape;
  std::vector<DagAxis> axes, reduce_axes;
  std::vector<DagRead> reads;  // in the order of the body; an access that occurs twice may stand twice
  std::string body_text;       // of a reduction: what is combined
  int32_t body = -1;  // the expression of body_text, its variables and loads resolved; -1 where TVM printed what
                      // parse_expression does not know, which only matters to who needs the arithmetic
  double flops = 0.0;

  size_t axis_count() const { return axes.size() + reduce_axes.size(); }
  /// Spatial axes, then reduction axes: a variable's target counts them so.
  const DagAxis& axis(size_t position) const {
    return position < axes.size() ? axes[position] : reduce_axes[position - axes.size()];
  }
};

/// What a tensor program computes: its stages in topological order (a stage reads only stages before it), as
/// TVM's auto_scheduler numbers them. FORMATS: `dags.jsonl`.
struct ComputeDag {
  std::string workload_key;  // empty if unknown
  ExpressionTree expressions;
  std::vector<DagStage> stages;
};

/// Largest extents and shapes: products of a few still fit into 64 bits.
constexpr int64_t kLargestExtent = int64_t{1} << 31;
constexpr size_t kMostDagStages = 1024, kMostAxes = 64;

/// Resolves the variables of the expression `root` to the axes of `stage` and its loads to stages of the same name
/// before `stage`, the last of them if several. Throws DataError where a name is unknown.
void resolve_names(ComputeDag& dag, size_t stage, int32_t root);

/// Appends the accesses in the tree of `root` in the order of their evaluation.
void collect_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& loads);

/// Throws DataError, which names the stage, unless the DAG is what its comments say; sizes are bounded.
void validate(const ComputeDag& dag);

/// As TVM prints a DAG, one line a stage: `C(i, j) += (A[i, k]*B[k, j])`.
std::string to_text(const ComputeDag& dag);

}  // namespace foretime::data
