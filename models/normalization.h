#pragma once

#include <cstdint>
#include <string>

#include <torch/torch.h>

#include "models/plan_tensors.h"

namespace foretime::models {

/// What follows a convolution, before its activation (model.norm).
///   layer  each state on its own (Ba et al., arXiv 1607.06450)
///   graph  over the nodes of one candidate, column by column, with a learned part of the mean taken out (GraphNorm,
///   Cai
///          et al., arXiv 2009.03294). A state then depends on all of its candidate's nodes, so that candidates share
///          none (data::Sharing::none).
/// Parameters: weight, bias, and mean_scale (graph).
class Normalization : public torch::nn::Module {
 public:
  /// Throws ModelError for an unknown name.
  Normalization(const std::string& type, int64_t width);
  static bool breaks_sharing(const std::string& type) { return type == "graph"; }

  /// x [states, width] of any level of `plan`. `graph` needs a plan whose levels are equal and hold each candidate's
  /// nodes apart.
  torch::Tensor forward(const torch::Tensor& x, const PlanTensors& plan) const;

 private:
  torch::Tensor over_graph(const torch::Tensor& x, const PlanTensors& plan) const;

  bool graph_;
  torch::Tensor weight_, bias_, mean_scale_;
};

}  // namespace foretime::models
