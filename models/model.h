#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "models/error.h"
#include "models/form_writer.h"
#include "models/sparse/plan_tensors.h"
#include "plans/message_plan.h"

namespace foretime::models {

/// What a model is fed: fixed by the kind of data, stored with every checkpoint.
struct InputSchema {
  data::CandidateKind kind = data::CandidateKind::layout;
  int64_t feature_count = 0;    // columns of node_features
  int64_t node_type_count = 0;  // node types are below this
  bool operator==(const InputSchema&) const = default;
};

/// Column statistics of the raw node features over the training graphs, and of the candidate features (tile).
struct InputStatistics {
  torch::Tensor minimum, maximum, mean, deviation;  // [features] float64
  torch::Tensor candidate_minimum, candidate_maximum, candidate_mean,
      candidate_deviation;     // [24] float64; undefined unless tile
  torch::Tensor type_vectors;  // [node types, model.node_type_embedding] float, of model.node_types.vectors fasttext;
                               // else undefined
};

/// Scores the candidates of a plan; a lower score means a faster candidate. Feature transforms are buffers of the
/// model, so a checkpoint holds all that is needed to score raw files.
class CostModel : public torch::nn::Module {
 public:
  /// What its plans must hold.
  virtual plans::PlanRequest plan_request() const = 0;
  /// [candidates], in the model's floating-point type.
  virtual torch::Tensor score(const PlanTensors& plan) = 0;

  /// Scores to train on, one loss for each and their mean: models that are the mean of several members train these
  /// apart. `score` is their mean.
  virtual std::vector<torch::Tensor> member_scores(const PlanTensors& plan) { return {score(plan)}; }

  /// These members, where each is a model of its own with the same plans; else none.
  virtual std::vector<std::shared_ptr<CostModel>> members() const { return {}; }

  /// `score` in two halves, for groups that are scored a few candidates at a time: `embed` looks at each candidate for
  /// itself, [candidates, columns]; `score_embedded` may compare those of a group, [candidates]. `group_ptr`: as
  /// PlanTensors::group_ptr.
  virtual torch::Tensor embed(const PlanTensors& plan) { return score(plan).unsqueeze(1); }
  virtual torch::Tensor score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& /*group_ptr*/) {
    return embedded.squeeze(1);
  }

  /// A graph in pieces (segment training): each piece is pooled, pools are combined, and the head scores the result.
  /// combine_pools(pool(plan)) through score_pools equals score(plan) for a plan of one piece. Layout data only.
  ///   pool           [candidates, pools, columns]: sums, counts and maxima over nodes, before any normalisation
  ///   combine_pools  [candidates, pieces, columns] → [candidates, columns]; `weights` [candidates, pieces] (undefined:
  ///                  all 1) scales the sums and counts of a piece, and 0 leaves it out of the maxima
  ///   score_pools    [candidates, columns] → [candidates]
  /// Models of whole graphs only leave these as they are: they throw ModelError.
  virtual torch::Tensor pool(const PlanTensors& plan);
  virtual torch::Tensor combine_pools(const torch::Tensor& pools, const torch::Tensor& weights = {}) const;
  virtual torch::Tensor score_pools(const torch::Tensor& pools);
  virtual int64_t pool_columns() const;
  /// Sets the feature transform's buffers, as model.features asks for; columns that are constant become 0. Likewise the
  /// vectors of node types that are not learned. Throws ModelError where what the settings ask for is not there.
  virtual void fit_transform(const InputStatistics& statistics) = 0;

  /// `embed` and `score_embedded`, in evaluation, as lists of operations (inference/form.h): each returns the name of
  /// its result, [candidates, embedded_columns] and [candidates, 1]. `form_request`: what plans of the form must hold,
  /// as plan_request; form_needs_statements: Form::statements. Models without a form throw ModelError.
  virtual std::string describe_embed(FormWriter& writer) const;
  virtual std::string describe_score(FormWriter& /*writer*/, const std::string& embedded) const { return embedded; }
  virtual int64_t embedded_columns() const { return 1; }
  virtual plans::PlanRequest form_request() const { return plan_request(); }
  virtual bool form_needs_statements() const { return false; }
};

/// Builds a model by its registered name (`model.type`). Weights are drawn from torch's generator: seed it first.
/// Throws ModelError for settings that do not fit together (a readout over configurable nodes without layouts, say).
std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema);

/// Names that `model.type` may have.
std::vector<std::string> model_types();

}  // namespace foretime::models
