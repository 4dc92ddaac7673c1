#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "data/message_plan.h"
#include "models/dense.h"
#include "models/plan_tensors.h"

namespace foretime::models {

/// The layout features of a level's states: state s has rows[row_of_state[s]]. Both are undefined where the plan has no
/// layouts; row_of_state alone is where no state of the level is configurable.
struct StateLayout {
  torch::Tensor rows;      // [distinct rows, 18], scaled
  CsrTensor row_of_state;  // gathers the row of each state
};

/// One step of message passing, from the states of a level to those of the next. It sees nothing but the plan's
/// matrices, so it holds for every way of making states from nodes. The residual sum belongs to the model.
class Convolution : public torch::nn::Module {
 public:
  /// states [states below, input width], `layout` of the same level → [states above, output width], with negative
  /// results multiplied by `slope` (1: no activation).
  virtual torch::Tensor forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout& layout,
                                double slope) = 0;
};

/// Each target's own state one level down (LayerTensors::self).
torch::Tensor own_states(const torch::Tensor& states, const LayerTensors& layer);

/// Graph convolution (Kipf and Welling, arXiv 1609.02907): Â x Wᵀ + b. Parameters: weight, bias.
class GcnConvolution : public Convolution {
 public:
  GcnConvolution(int64_t input, int64_t output);
  /// Â = D^-½ (A + Aᵀ + I) D^-½.
  static std::vector<data::RelationSpec> relations();
  torch::Tensor forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout& layout,
                        double slope) override;

 private:
  torch::nn::Linear linear_{nullptr};
};

/// GraphSAGE with mean aggregation (Hamilton et al., arXiv 1706.02216), producers and consumers apart:
/// W_self x + W_in mean(x of producers) + W_out mean(x of consumers) + b. A node without neighbours gets a mean of 0.
class SageConvolution : public Convolution {
 public:
  SageConvolution(int64_t input, int64_t output);
  static std::vector<data::RelationSpec> relations();
  torch::Tensor forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout& layout,
                        double slope) override;

 private:
  torch::nn::Linear own_{nullptr}, producers_{nullptr}, consumers_{nullptr};
};

/// The layer of the published TpuGraphs layout baseline: MLP(Â concat(layout, x)), where the MLP is two linear layers
/// with an activation between them. Without layouts the input is x alone.
class ResidualGcnConvolution : public Convolution {
 public:
  ResidualGcnConvolution(int64_t layout_width, int64_t width, const Activation& activation, double dropout);
  static std::vector<data::RelationSpec> relations() { return GcnConvolution::relations(); }
  torch::Tensor forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout& layout,
                        double slope) override;

 private:
  int64_t layout_width_, width_;
  std::shared_ptr<DenseStack> mlp_;
};

}  // namespace foretime::models
