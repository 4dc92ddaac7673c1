#pragma once

#include <memory>
#include <vector>

#include "models/convolutions/gcn.h"
#include "models/layers/dense.h"
#include "models/layers/encoder.h"
#include "models/layers/readout.h"
#include "models/layers/topk_pool.h"
#include "models/model.h"

namespace foretime::models {

/// TPGNN: a graph network over syntax trees with hierarchical pooling, for programs only.
///   inputs → [GCN convolution, activation, TopK pooling] * model.layers → sum of the readouts after each pooling →
///   head
/// Its text fixes three convolutions from 20 to 128 columns, pooling of ratio 0.8, and a head of 256-128-64-1, and
/// leaves open what reaches the head: we follow PyTorch Geometric's example of TopK pooling, whose sizes are the same:
/// the mean and the maximum over what each pooling leaves, summed over the poolings. The convolution's adjacency has
/// both directions and a self loop, its degrees are those of the pooled graph.
///
/// Settings: hidden, layers, pool_ratio, readout (each part over the nodes that are left), encoder_layers (0: the first
/// convolution reads the inputs as they are), head_layers (each half as wide as the one before), head_bias, activation,
/// dropout (in the head only).
/// Parameters: encoder.…, layers.N.linear, pools.N.weight, head.N.
class Tpgnn : public CostModel {
 public:
  /// Throws ModelError for data that are no programs, and for model.norm, which the published model does not have.
  Tpgnn(const configs::ModelSettings& settings, const InputSchema& schema);

  plans::PlanRequest plan_request() const override;
  torch::Tensor score(const PlanTensors& plan) override;
  void fit_transform(const InputStatistics& statistics) override { encoder_->fit_transform(statistics); }
  std::string describe_embed(FormWriter& writer) const override;
  /// With the first convolution's normalised adjacency beside the one that pooling takes from.
  plans::PlanRequest form_request() const override;

 private:
  void check(const PlanTensors& plan) const;

  InputSchema schema_;
  Activation activation_;
  Readout readout_;
  std::shared_ptr<Encoder> encoder_;
  std::vector<std::shared_ptr<GcnConvolution>> convolutions_;
  std::vector<std::shared_ptr<TopKPool>> pools_;
  std::shared_ptr<DenseStack> head_;
};

}  // namespace foretime::models
