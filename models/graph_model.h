#pragma once

#include <memory>
#include <vector>

#include <torch/torch.h>

#include "models/convolutions/convolution.h"
#include "models/layers/candidate_attention.h"
#include "models/layers/dense.h"
#include "models/layers/encoder.h"
#include "models/layers/normalization.h"
#include "models/layers/readout.h"
#include "models/model.h"

namespace foretime::models {

/// What sets one type of model apart from another: how states pass messages.
struct Propagation {
  std::vector<ConvolutionSpec> layers = {};
  bool residual = false;          // x + act(conv(x)) instead of act(conv(x))
  bool l2_normalize = false;      // each state over its norm, after each layer
  bool activates_before = false;  // convolutions activate what they get: conv(x), and one activation after the last
};

/// Encoder, message passing, readout, dense head: every type of model but a few is one of these with its own
/// Propagation. Parameters, in this order: encoder.…, layers.N, norms.N, candidates.log_temperature, head.N.
class GraphModel : public CostModel {
 public:
  GraphModel(const configs::ModelSettings& settings, const InputSchema& schema, Propagation propagation);

  plans::PlanRequest plan_request() const override;
  torch::Tensor score(const PlanTensors& plan) override { return score_embedded(embed(plan), plan.group_ptr); }
  torch::Tensor embed(const PlanTensors& plan) override;
  torch::Tensor score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr) override;
  torch::Tensor pool(const PlanTensors& plan) override;
  torch::Tensor combine_pools(const torch::Tensor& pools, const torch::Tensor& weights) const override;
  torch::Tensor score_pools(const torch::Tensor& pools) override;
  int64_t pool_columns() const override { return readout_.pool_columns(width_); }
  void fit_transform(const InputStatistics& statistics) override { encoder_->fit_transform(statistics); }
  std::string describe_embed(FormWriter& writer) const override;
  std::string describe_score(FormWriter& writer, const std::string& embedded) const override;
  int64_t embedded_columns() const override;

 private:
  void check(const PlanTensors& plan) const;
  torch::Tensor propagate(const torch::Tensor& states, const PlanTensors& plan);
  std::vector<LayerTensors> hops_of(size_t convolution, const PlanTensors& plan) const;

  configs::ModelSettings settings_;
  InputSchema schema_;
  Propagation propagation_;
  Activation activation_;
  int64_t width_ = 0;  // of the final states
  Readout readout_;
  std::shared_ptr<Encoder> encoder_;
  std::vector<plans::RelationSpec> relations_;  // of all convolutions, each once
  struct Layer {
    std::shared_ptr<Convolution> convolution;
    std::vector<size_t> relations;  // which of relations_ it asks for
    size_t first_hop = 0, hops = 1;
  };
  std::vector<Layer> layers_;
  std::vector<std::shared_ptr<Normalization>> norms_;  // one a layer, or none at all
  std::shared_ptr<CandidateAttention> attention_;      // null: candidates are scored each for itself
  std::shared_ptr<DenseStack> head_;
};

}  // namespace foretime::models
