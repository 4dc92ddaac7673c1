#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "models/form_writer.h"
#include "models/sparse/plan_tensors.h"
#include "plans/message_plan.h"

namespace foretime::models {

/// The layout features of a level's states: state s has rows[row_of_state[s]]. Both are undefined where the plan has no
/// layouts; row_of_state alone is where no state of the level is configurable.
struct StateLayout {
  torch::Tensor rows;      // [distinct rows, columns], as the encoder makes them; the first one, "none", is zeros
  CsrTensor row_of_state;  // gathers the row of each state
};

/// The layers of a plan that a convolution spans, lowest first, each with the convolution's own relations only.
using Hops = std::span<const LayerTensors>;

/// Message passing from the states of a level to those of a level above. It sees nothing but the plan's matrices, so it
/// holds for every way of making states from nodes. The residual sum belongs to the model.
class Convolution : public torch::nn::Module {
 public:
  /// states [states below, input width], `layout` of the same level → [states above, output width], with negative
  /// results multiplied by `slope` (1: no activation).
  virtual torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) = 0;
  /// The same as operations.
  virtual std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                               const FormLayout& layout, double slope) const = 0;
};

/// A convolution before it is made: what it asks of a plan.
struct ConvolutionSpec {
  std::vector<plans::RelationSpec> relations;
  int64_t hops = 1;                                                 // layers of the plan that it spans
  std::function<std::shared_ptr<Convolution>(int64_t input)> make;  // from `input` columns to model.hidden
};

/// Each target's own state one level down (LayerTensors::self), and the same through several levels.
torch::Tensor own_states(const torch::Tensor& states, const LayerTensors& layer);
torch::Tensor own_states(const torch::Tensor& states, Hops hops);

/// leaky_relu, and x itself for slope 1.
torch::Tensor activated(const torch::Tensor& x, double slope);

/// The width of a head. Throws ModelError, naming model.heads and model.hidden, where the heads do not divide `width`.
int64_t head_width(int64_t width, int64_t heads);

/// The same convolution twice, with weights of its own for messages from producers and from consumers, whose results
/// are summed. `spec` must have one relation, in both directions.
ConvolutionSpec in_each_direction(const ConvolutionSpec& spec);

}  // namespace foretime::models
