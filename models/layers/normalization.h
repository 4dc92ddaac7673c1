#pragma once

#include <cstddef>
#include <string>

#include <torch/torch.h>

#include "models/form_writer.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// Normalisation of states after a convolution: model.norm.
///   layer  each state over its own columns (Ba et al., arXiv 1607.06450)
///   graph  each column over the nodes of a candidate (Cai et al., "GraphNorm", arXiv 2009.03294): y = weight * (x -
///          mean_scale * mean) / deviation + bias. Its statistics make every state depend on the whole candidate, so it
///          needs plans without shared states, one state for each node and candidate.
///   batch  each column over all nodes and candidates of the batch (Ioffe and Szegedy, arXiv 1502.03167), in evaluation
///          by running means of these statistics (momentum 0.1), which are buffers. States that a plan shares count as
///          often as nodes and candidates have them, so sharing changes nothing. Each rank has the statistics of its
///          own part of a batch; the trainer averages the running ones over ranks.
/// Parameters: weight, bias; of graph also mean_scale. Buffers of batch: running_mean, running_variance.
class Normalization : public torch::nn::Module {
 public:
  /// Throws ModelError for another type.
  Normalization(const std::string& type, int64_t width);
  /// x: the states of `level` of the plan.
  torch::Tensor forward(const torch::Tensor& x, const PlanTensors& plan, size_t level);
  /// Of states that have none of their own: layer and batch of any level, graph of a plan without shared states.
  std::string describe(FormWriter& writer, const std::string& x) const;
  static bool breaks_sharing(const std::string& type) { return type == "graph"; }

 private:
  enum class Kind { layer, graph, batch };
  torch::Tensor over_graph(const torch::Tensor& x, const PlanTensors& plan) const;
  torch::Tensor over_batch(const torch::Tensor& x, const PlanTensors& plan, size_t level);

  Kind kind_;
  torch::Tensor weight_, bias_, mean_scale_, running_mean_, running_variance_;
};

/// Whether a buffer of this name is one that training changes: a running mean or variance of batch normalisation.
bool is_running_statistic(const std::string& name);

/// [states of the level, 1]: how many pairs of a node and a candidate of the batch have each state. Of a plan made with
/// gradients.
torch::Tensor state_counts(const PlanTensors& plan, size_t level);

}  // namespace foretime::models
