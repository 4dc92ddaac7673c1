#pragma once

#include <cstdint>
#include <string>

#include "configs/settings.h"
#include "models/graph/graph_builder.h"

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
/// Parameters below `name`: weight, bias; of graph also mean_scale. Buffers of batch: running_mean, running_variance.
class Normalization {
 public:
  /// `type` is not none.
  Normalization(GraphBuilder& builder, const std::string& name, configs::Norm type, int64_t width);
  /// x: the states of `level` of the plan.
  Value operator()(GraphBuilder& builder, Value x, int64_t level) const;
  static bool breaks_sharing(configs::Norm type) { return type == configs::Norm::graph; }

 private:
  configs::Norm type_;
  WeightRef weight_, bias_, mean_scale_, running_mean_, running_variance_;
};

/// Whether a buffer of this name is one that training changes: a running mean or variance of batch normalisation.
bool is_running_statistic(const std::string& name);

}  // namespace foretime::models
