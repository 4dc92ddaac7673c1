#include "models/normalization.h"

#include <fmt/format.h>

#include "models/csr_ops.h"
#include "models/error.h"

namespace foretime::models {
namespace {

constexpr double kEpsilon = 1e-5;

}  // namespace

Normalization::Normalization(const std::string& type, int64_t width) : graph_(type == "graph") {
  if (!graph_ && type != "layer")
    throw ModelError(fmt::format("model.norm: '{}', expected none, layer or graph", type));
  weight_ = register_parameter("weight", torch::ones({width}));
  bias_ = register_parameter("bias", torch::zeros({width}));
  if (graph_) mean_scale_ = register_parameter("mean_scale", torch::ones({width}));
}

torch::Tensor Normalization::forward(const torch::Tensor& x, const PlanTensors& plan) const {
  return graph_ ? over_graph(x, plan) : torch::layer_norm(x, {x.size(1)}, weight_, bias_, kEpsilon);
}

torch::Tensor Normalization::over_graph(const torch::Tensor& x, const PlanTensors& plan) const {
  const CsrTensor& rows = plan.nodes.stages.front();
  if (plan.nodes.stages.size() > 1 || rows.cols != x.size(0) || rows.columns.size(0) != x.size(0)) {
    throw ModelError(
        "model.norm: graph, with a plan whose candidates share states; expected a state for each node and candidate");
  }
  const auto candidates = transposed(rows);  // each state's candidate
  const auto count = plan.nodes.counts.clamp_min(1.0);
  const auto mean = csr_matmul(rows, x) / count;
  const auto centered = x - csr_matmul(candidates, mean) * mean_scale_;
  const auto variance = csr_matmul(rows, centered * centered) / count;
  return weight_ * centered * csr_matmul(candidates, torch::rsqrt(variance + kEpsilon)) + bias_;
}

}  // namespace foretime::models
