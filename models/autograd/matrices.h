#pragma once

#include <map>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "inference/runtime/references.h"
#include "models/autograd/top_nodes.h"
#include "models/graph/model_graph.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// The sparse matrices of a plan as an operation of the graph names them. Made when first asked for; matrices whose
/// messages are dropped are drawn from torch's generator then.
class AutogradMatrices {
 public:
  /// Both must outlive this. `training`: whether messages are dropped.
  AutogradMatrices(const PlanTensors& plan, const ModelGraph& model, bool training);

  /// Null: the identity. Throws ModelError for what the plan does not have.
  const CsrTensor* matrix(const MatrixRef& name);
  /// Whether the matrix has no entries at all: layouts of states none of which is configurable.
  bool is_zero(const MatrixRef& name) const;
  const PoolTensors& pool(const MatrixRef& name);
  /// [rows, 1]: how many states each row of the pool counts.
  torch::Tensor counts(const MatrixRef& name);
  /// Sets these in place of the plan's.
  void provide_counts(const MatrixRef& pool, torch::Tensor counts) { counts_[pool] = std::move(counts); }

  /// The graphs of a batch: those of the plan for -1, or what top_nodes with this result has left.
  GraphBatch& graphs(int32_t of);
  void provide_graphs(int32_t result, GraphBatch graphs) { graphs_[result] = std::move(graphs); }
  const PlanTensors& plan() const { return plan_; }

 private:
  void drop(int32_t set);
  CsrTensor make(const MatrixRef& name);
  void make_statements();

  const PlanTensors& plan_;
  const ModelGraph& model_;
  bool training_;
  std::map<MatrixRef, CsrTensor> made_;
  std::map<MatrixRef, PoolTensors> pools_;
  std::map<MatrixRef, torch::Tensor> counts_;
  std::map<int32_t, GraphBatch> graphs_;
};

/// [states of the level, 1]: how many pairs of a node and a candidate of the batch have each state. Of a plan made with
/// gradients.
torch::Tensor state_counts(const PlanTensors& plan, size_t level);

}  // namespace foretime::models
