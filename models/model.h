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

/// Column statistics of the raw node features over the training graphs, and of the candidate features (tile).
struct InputStatistics {
  torch::Tensor minimum, maximum, mean, deviation;  // [features] float64
  torch::Tensor candidate_minimum, candidate_maximum, candidate_mean,
      candidate_deviation;     // [24] float64; undefined unless tile
  torch::Tensor type_vectors;  // [node types, model.node_type_embedding] float, of model.node_types.vectors fasttext;
                               // else undefined
};

class AutogradGraph;

/// Scores the candidates of a plan; a lower score means a faster candidate. It is a graph of operations (ModelGraph),
/// the very one that bundles hold, executed by LibTorch. Feature transforms are buffers of the model, so a checkpoint
/// holds all that is needed to score raw files.
class CostModel : public torch::nn::Module {
 public:
  /// Draws the weights from torch's generator: seed it first.
  CostModel(ModelGraph graph, const InputSchema& schema);
  ~CostModel() override;

  /// What its plans must hold.
  const plans::PlanRequest& plan_request() const;
  /// How its plans are best brought to `device` for training.
  PlanTensorOptions plan_tensor_options(torch::Device device) const;
  /// [candidates], in the model's floating-point type.
  torch::Tensor score(const PlanTensors& plan);

  /// Scores to train on, one loss for each and their mean: models that are the mean of several members train these
  /// apart. `score` is their mean. [candidates], or with model.failure_output [candidates, 2]: the second column holds
  /// logits of the chance of failure.
  std::vector<torch::Tensor> member_scores(const PlanTensors& plan);

  /// These members, where each is a model of its own with the same plans; else none. They share their weights with this
  /// model.
  std::vector<std::shared_ptr<CostModel>> members();

  /// `score` in two halves, for groups that are scored a few candidates at a time: `embed` looks at each candidate for
  /// itself, [candidates, columns]; `score_embedded` may compare those of a group, [candidates]. `group_ptr`: as
  /// PlanTensors::group_ptr.
  torch::Tensor embed(const PlanTensors& plan);
  torch::Tensor score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr);
  /// Likewise, as member_scores has them.
  torch::Tensor outputs_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr);

  /// A graph in pieces (segment training): each piece is pooled, pools are combined, and the head scores the result.
  /// combine_pools(pool(plan)) through score_pools equals score(plan) for a plan of one piece. Layout data only.
  ///   pool           [candidates, pools, columns]: sums, counts and maxima over nodes, before any normalisation
  ///   combine_pools  [candidates, pieces, columns] → [candidates, columns]; `weights` [candidates, pieces] (undefined:
  ///                  all 1) scales the sums and counts of a piece, and 0 leaves it out of the maxima
  ///   score_pools    [candidates, columns] → [candidates]
  /// Models of whole graphs only throw ModelError.
  torch::Tensor pool(const PlanTensors& plan);
  torch::Tensor combine_pools(const torch::Tensor& pools, const torch::Tensor& weights = {}) const;
  torch::Tensor score_pools(const torch::Tensor& pools);
  int64_t pool_columns() const;

  /// Sets the feature transform's buffers, as model.features asks for; columns that are constant become 0. Likewise the
  /// vectors of node types that are not learned. Throws ModelError where what the settings ask for is not there.
  void fit_transform(const InputStatistics& statistics);

  /// Batch normalisation by its running statistics also in training, which then stay as they are: where there are few
  /// candidates to learn from.
  void freeze_statistics(bool frozen);

  /// The graph as it is exported: without what only training needs. Throws ModelError where it cannot be.
  inference::Graph inference_graph() const;
  /// All parameters and buffers, whether the graph names them or not (training can go on from them), as float32.
  inference::Weights inference_weights() const;

 private:
  struct Sharing {};  // of another model's weights
  CostModel(ModelGraph graph, const InputSchema& schema, const std::map<std::string, torch::Tensor>& tensors, Sharing);
  void register_tensors(const std::map<std::string, torch::Tensor>& tensors);
  void check(const PlanTensors& plan) const;
  void check_whole(const PlanTensors& plan) const;  // not in pieces
  void check_pieces() const;
  torch::Tensor tensor(const std::string& name) const { return tensors_.at(name); }
  int64_t columns(const PooledStates& pool) const;

  ModelGraph model_;
  InputSchema schema_;
  std::map<std::string, torch::Tensor> tensors_;
  std::unique_ptr<AutogradGraph> graph_;
};

/// Builds a model by its registered name (`model.type`). Weights are drawn from torch's generator: seed it first.
/// Throws ModelError for settings that do not fit together (a readout over configurable nodes without layouts, say).
std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
