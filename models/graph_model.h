#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "models/convolutions.h"
#include "models/dense.h"
#include "models/encoder.h"
#include "models/model.h"
#include "models/normalization.h"
#include "models/readout.h"

namespace foretime::models {

/// What sets one type of model apart from another: how states pass messages. A new type is one file that returns one of
/// these, and one line in registry.cpp.
struct Propagation {
  int64_t layers = 0;
  std::vector<data::RelationSpec> relations;
  std::function<std::shared_ptr<Convolution>()>
      make_convolution;       // called once a layer; input and output are `hidden` wide
  bool residual = false;      // x + act(conv(x)) instead of act(conv(x))
  bool l2_normalize = false;  // each state over its norm, after each layer
};

/// Encoder, message passing, readout, dense head: every registered model is one of these with its own Propagation.
/// Parameters, in this order: encoder.node_types, encoder.dense.N, layers.N, norms.N, head.N.
class GraphModel : public CostModel {
 public:
  GraphModel(const configs::ModelSettings& settings, const InputSchema& schema, Propagation propagation);

  data::PlanRequest plan_request() const override;
  torch::Tensor score(const PlanTensors& plan) override;
  torch::Tensor pool(const PlanTensors& plan) override;
  torch::Tensor combine_pools(const torch::Tensor& pools, const torch::Tensor& weights) const override;
  torch::Tensor score_pools(const torch::Tensor& pools) override;
  int64_t pool_columns() const override { return readout_.pool_columns(settings_.hidden); }
  void fit_transform(const InputStatistics& statistics) override { encoder_->fit_transform(statistics); }

 private:
  void check(const PlanTensors& plan) const;
  torch::Tensor propagate(const torch::Tensor& states, const PlanTensors& plan);

  configs::ModelSettings settings_;
  InputSchema schema_;
  Propagation propagation_;
  Activation activation_;
  Readout readout_;
  std::shared_ptr<Encoder> encoder_;
  std::vector<std::shared_ptr<Convolution>> convolutions_;
  std::vector<std::shared_ptr<Normalization>> norms_;  // one a layer, or none at all
  std::shared_ptr<DenseStack> head_;
};

}  // namespace foretime::models
