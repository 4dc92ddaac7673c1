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

/// Holds statistics of each column of node features, over the nodes of the training graphs, and of each tile feature,
/// over the candidates. Features are logarithms with model.features.log.
struct InputStatistics {
  torch::Tensor minimum, maximum, mean, deviation;  // [features] float64
  // [24] float64; undefined unless the data are tiles
  torch::Tensor candidate_minimum, candidate_maximum, candidate_mean, candidate_deviation;
  torch::Tensor type_vectors;  // [node types, model.node_type_embedding] float; undefined unless
                               // model.node_types.vectors is fasttext
};

class AutogradGraph;

/// Scores the candidates of a plan; a lower score means a faster candidate. LibTorch executes the model's graph of
/// operations (ModelGraph), which bundles hold too. Feature transforms are buffers of the model, so that a checkpoint
/// can score raw files. Functions that take a plan throw ModelError for a node type that the model does not know, and
/// BrokenInvariant for a plan that was not made for plan_request() or for data of another kind.
class CostModel : public torch::nn::Module {
 public:
  /// Draws the weights from torch's generator, which the caller seeds.
  CostModel(ModelGraph graph, const InputSchema& schema);
  ~CostModel() override;

  /// Returns the contents that the model's plans must have.
  const plans::PlanRequest& plan_request() const;
  /// Returns the options for plans of this model on `device`, for training.
  PlanTensorOptions plan_tensor_options(torch::Device device) const;
  /// Returns the scores, [candidates], in the type of the weights; without the logits of model.failure_output.
  torch::Tensor score(const PlanTensors& plan);

  /// Returns the scores of each ensemble member, for separate losses in training; one element without an ensemble.
  /// `score` is the mean of the members. Each element is [candidates], or with model.failure_output [candidates, 2],
  /// whose second column holds logits of the chance of failure.
  std::vector<torch::Tensor> member_scores(const PlanTensors& plan);

  /// Returns the members of an ensemble as models that share its weights; empty unless there are several separate ones.
  std::vector<std::shared_ptr<CostModel>> members();

  /// Returns the embedding of each candidate, [candidates, columns], which does not depend on other candidates: the
  /// first step of `score`, for groups that are embedded a few candidates at a time.
  torch::Tensor embed(const PlanTensors& plan);
  /// Returns the scores, [candidates], of embedded candidates: the second step of `score`. Candidates of a group may be
  /// compared, so `embedded` must hold whole groups; for `group_ptr` see PlanTensors::group_ptr.
  torch::Tensor score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr);
  /// Does the same as score_embedded, but keeps the logits: the result has the shape of an element of member_scores.
  torch::Tensor outputs_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr);

  /// Returns the pools of each piece of a graph (segment training), [candidates, pieces, columns]: sums, counts and
  /// maxima over the piece's nodes, before any normalisation. Like the next three functions, throws ModelError for a
  /// model that scores whole graphs only, as for data other than layouts.
  torch::Tensor pool(const PlanTensors& plan);
  /// Combines pools of pieces, [candidates, pieces, columns] → [candidates, columns]. `weights` [candidates, pieces]
  /// (undefined: all 1) scale the sums and counts; pieces of weight 0 or without nodes do not count in the maxima.
  torch::Tensor combine_pools(const torch::Tensor& pools, const torch::Tensor& weights = {}) const;
  /// Returns the scores, [candidates], of combined pools [candidates, columns]. For a plan of one piece,
  /// score_pools(combine_pools(pool(plan))) equals score(plan).
  torch::Tensor score_pools(const torch::Tensor& pools);
  /// Returns the number of columns of pools.
  int64_t pool_columns() const;

  /// Sets the buffers of the feature transform (model.features), which makes constant columns 0, and fixed vectors of
  /// node types. Throws ModelError if these vectors do not fit, and BrokenInvariant for statistics of other columns.
  void fit_transform(const InputStatistics& statistics);

  /// Sets whether training uses batch normalisation's running statistics unchanged, for training on few candidates.
  void freeze_statistics(bool frozen);

  /// Returns the graph for export, without operations of training.
  inference::Graph inference_graph() const;
  /// Returns all parameters and buffers as float32, including those that only training uses.
  inference::Weights inference_weights() const;

 private:
  struct Sharing {};  // tag of the constructor that shares another model's weights
  CostModel(ModelGraph graph, const InputSchema& schema, const std::map<std::string, torch::Tensor>& tensors, Sharing);
  void register_tensors(const std::map<std::string, torch::Tensor>& tensors);
  /// Waits for the plan's upload. Throws ModelError for an unknown node type, else BrokenInvariant for other inputs.
  void check(const PlanTensors& plan) const;
  /// Does the same as check(), and throws BrokenInvariant for a plan in pieces.
  void check_whole(const PlanTensors& plan) const;
  /// Throws ModelError for a model that scores whole graphs only.
  void check_pieces() const;
  torch::Tensor tensor(const std::string& name) const { return tensors_.at(name); }
  /// Returns the number of columns of one pool: sums, count, maxima.
  int64_t columns(const PooledStates& pool) const;

  ModelGraph model_;
  InputSchema schema_;
  std::map<std::string, torch::Tensor> tensors_;
  std::unique_ptr<AutogradGraph> graph_;
};

/// Builds the model that `settings` name. Its weights are drawn from torch's generator, which the caller seeds. Throws
/// ModelError for contradicting settings or other data, such as a readout over configurable nodes without layouts.
std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
