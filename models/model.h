#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn.h>
#include <torch/types.h>

#include "inference/runtime/references.h"
#include "models/graph/graph_builder.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// Holds column statistics of the raw node features over the training graphs, and of tile features.
struct InputStatistics {
  torch::Tensor minimum, maximum, mean, deviation;  // [features] float64
  // [24] float64; undefined unless tile
  torch::Tensor candidate_minimum, candidate_maximum, candidate_mean, candidate_deviation;
  torch::Tensor type_vectors;  // [node types, model.node_type_embedding] float; undefined unless
                               // model.node_types.vectors is fasttext
};

class AutogradGraph;

/// Scores the candidates of a plan; a lower score means a faster candidate. It executes a graph of operations
/// (ModelGraph), which bundles hold too, by LibTorch. Feature transforms are buffers of the model, so that a checkpoint
/// can score raw files.
class CostModel : public torch::nn::Module {
 public:
  /// Draws the weights from torch's generator: seed it first.
  CostModel(ModelGraph graph, const InputSchema& schema);
  ~CostModel() override;

  /// Returns the contents that the model's plans must have.
  const plans::PlanRequest& plan_request() const;
  /// Returns the options for plans of this model on `device`, for training.
  PlanTensorOptions plan_tensor_options(torch::Device device) const;
  /// Returns the scores, [candidates], in the model's floating-point type.
  torch::Tensor score(const PlanTensors& plan);

  /// Returns the scores of each ensemble member, which training uses for separate losses; `score` is their mean.
  /// [candidates], or with model.failure_output [candidates, 2]: the second column holds logits of the chance of
  /// failure.
  std::vector<torch::Tensor> member_scores(const PlanTensors& plan);

  /// Returns the ensemble members as models that share this model's weights; empty if they are not separate models with
  /// equal plans.
  std::vector<std::shared_ptr<CostModel>> members();

  /// Computes `score` in two steps, for groups that are scored a few candidates at a time. `embed` computes each
  /// candidate separately, [candidates, columns]; `score_embedded` may compare candidates of a group, [candidates]. For
  /// `group_ptr` see PlanTensors::group_ptr.
  torch::Tensor embed(const PlanTensors& plan);
  torch::Tensor score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr);
  /// Computes the outputs of embedded candidates, with the columns of member_scores.
  torch::Tensor outputs_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr);

  /// Scores a graph in pieces (segment training): each piece is pooled, pools are combined, and the head scores the
  /// result. For a plan of one piece, score_pools(combine_pools(pool(plan))) equals score(plan). Layout data only.
  ///   pool           [candidates, pools, columns]: sums, counts and maxima over nodes, before any normalisation
  ///   combine_pools  [candidates, pieces, columns] → [candidates, columns]; `weights` [candidates, pieces] (undefined:
  ///                  all 1) scales the sums and counts of a piece, and 0 leaves it out of the maxima
  ///   score_pools    [candidates, columns] → [candidates]
  /// Throws ModelError for models that score whole graphs only.
  torch::Tensor pool(const PlanTensors& plan);
  torch::Tensor combine_pools(const torch::Tensor& pools, const torch::Tensor& weights = {}) const;
  torch::Tensor score_pools(const torch::Tensor& pools);
  /// Returns the columns of combined pools.
  int64_t pool_columns() const;

  /// Sets the buffers of the feature transform (model.features) and fixed vectors of node types. Constant columns
  /// become 0. Throws ModelError if `statistics` lacks a required value.
  void fit_transform(const InputStatistics& statistics);

  /// Sets whether training uses the running statistics of batch normalisation without changing them, for training on
  /// few candidates.
  void freeze_statistics(bool frozen);

  /// Returns the graph for export, without operations of training. Throws ModelError if the model cannot be exported.
  inference::Graph inference_graph() const;
  /// Returns all parameters and buffers as float32, including those that only training uses.
  inference::Weights inference_weights() const;

 private:
  struct Sharing {};  // tag of the constructor that shares another model's weights
  CostModel(ModelGraph graph, const InputSchema& schema, const std::map<std::string, torch::Tensor>& tensors, Sharing);
  void register_tensors(const std::map<std::string, torch::Tensor>& tensors);
  /// Throws ModelError for a plan with other inputs than the model's.
  void check(const PlanTensors& plan) const;
  void check_whole(const PlanTensors& plan) const;  // throws ModelError for a plan in pieces
  /// Throws ModelError for a model that scores whole graphs only.
  void check_pieces() const;
  torch::Tensor tensor(const std::string& name) const { return tensors_.at(name); }
  int64_t columns(const PooledStates& pool) const;

  ModelGraph model_;
  InputSchema schema_;
  std::map<std::string, torch::Tensor> tensors_;
  std::unique_ptr<AutogradGraph> graph_;
};

/// Builds a model by its registered name (`model.type`). Weights are drawn from torch's generator: seed it first.
/// Throws ModelError for settings that contradict each other, such as a readout over configurable nodes without
/// layouts.
std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
