#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "inference/graph/graph.h"
#include "models/autograd/matrices.h"
#include "models/graph/graph_builder.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

class AutogradGraph;

/// One pass through a list of nodes: what operations see when LibTorch executes them. A value that is undefined stands
/// for zeros: what comes of layouts where no state is configurable.
class AutogradRun {
 public:
  AutogradRun(const AutogradGraph& graph, AutogradMatrices* matrices, const std::vector<int64_t>& group_ptr,
              size_t nodes)
      : graph_(graph), matrices_(matrices), group_ptr_(group_ptr), values_(nodes + inference::kInputs) {}

  torch::Tensor& at(Value value) { return values_[static_cast<size_t>(value.id)]; }
  const torch::Tensor& in(Value value) const { return values_[static_cast<size_t>(value.id)]; }
  /// Undefined where the operation goes without it.
  torch::Tensor weight(const WeightRef& weight) const;
  AutogradMatrices& matrices() const { return *matrices_; }
  const std::vector<int64_t>& group_ptr() const { return group_ptr_; }
  bool training() const;
  bool statistics_frozen() const;
  Value result() const { return result_; }
  int64_t columns(Value value) const;

 private:
  friend class AutogradGraph;
  const AutogradGraph& graph_;
  AutogradMatrices* matrices_;
  const std::vector<int64_t>& group_ptr_;
  std::vector<torch::Tensor> values_;
  const std::vector<int64_t>* columns_ = nullptr;
  Value result_;
};

/// How LibTorch computes each operation, with gradients (operations.cpp).
torch::Tensor evaluate(const inference::Operation& operation, const AutogradRun& run);

/// A model's graph with its tensors, executed by LibTorch.
class AutogradGraph {
 public:
  using Provided = std::map<Value, torch::Tensor>;

  /// `graph` and `tensors` must outlive this.
  AutogradGraph(const ModelGraph& model, const std::map<std::string, torch::Tensor>& tensors, int64_t feature_count);

  /// The values of `embed` that are asked for. What is in `provided` is taken as it is.
  std::vector<torch::Tensor> embed(const PlanTensors* plan, AutogradMatrices* matrices,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  std::vector<torch::Tensor> score(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  int64_t embed_columns(Value value) const;
  bool training = true, statistics_frozen = false;

 private:
  friend class AutogradRun;
  std::vector<torch::Tensor> run(const std::vector<inference::Node>& nodes, AutogradRun& run,
                                 const std::vector<Value>& wanted, const Provided& provided) const;

  const ModelGraph& model_;
  const std::map<std::string, torch::Tensor>& tensors_;
  std::vector<int64_t> embed_columns_, score_columns_;  // of all values
};

}  // namespace foretime::models
