#include "models/layers/normalization.h"

#include <fmt/format.h>

#include "models/error.h"
#include "models/sparse/csr_ops.h"

namespace foretime::models {
namespace {

constexpr double kEpsilon = 1e-5, kMomentum = 0.1;

}  // namespace

Normalization::Normalization(const std::string& type, int64_t width) {
  if (type == "layer") {
    kind_ = Kind::layer;
  } else if (type == "graph") {
    kind_ = Kind::graph;
  } else if (type == "batch") {
    kind_ = Kind::batch;
  } else {
    throw ModelError(fmt::format("model.norm: '{}', expected none, layer, graph or batch", type));
  }
  weight_ = register_parameter("weight", torch::ones({width}));
  bias_ = register_parameter("bias", torch::zeros({width}));
  if (kind_ == Kind::graph) mean_scale_ = register_parameter("mean_scale", torch::ones({width}));
  if (kind_ == Kind::batch) {
    running_mean_ = register_buffer("running_mean", torch::zeros({width}));
    running_variance_ = register_buffer("running_variance", torch::ones({width}));
  }
}

torch::Tensor Normalization::forward(const torch::Tensor& x, const PlanTensors& plan, size_t level) {
  if (kind_ == Kind::graph) return over_graph(x, plan);
  if (kind_ == Kind::batch) return over_batch(x, plan, level);
  return torch::layer_norm(x, {x.size(1)}, weight_, bias_, kEpsilon);
}

torch::Tensor Normalization::over_batch(const torch::Tensor& x, const PlanTensors& plan, size_t level) {
  const auto scaled = [&](const torch::Tensor& mean, const torch::Tensor& variance) {
    const auto factor = weight_ * torch::rsqrt(variance + kEpsilon);
    return x * factor + (bias_ - mean * factor);
  };
  if (!is_training()) return scaled(running_mean_, running_variance_);
  const auto counts = state_counts(plan, level);
  const auto total = counts.sum();
  const auto mean = (x * counts).sum(0) / total;
  const auto variance = ((x - mean).square() * counts).sum(0) / total;
  {
    const torch::NoGradGuard no_gradient;
    running_mean_.lerp_(mean, kMomentum);
    running_variance_.lerp_(variance * (total / (total - 1).clamp_min(1)), kMomentum);  // unbiased, as is usual
  }
  return scaled(mean, variance);
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

std::string Normalization::describe(FormWriter& writer, const std::string& x) const {
  const auto normalized = [&](const char* mode, const std::string& input, const std::string& weight,
                              const std::string& bias) {
    return writer.emit({.op = "normalize",
                        .result = {},
                        .inputs = {input},
                        .weights = {weight, bias},
                        .mode = mode,
                        .numbers = {{"epsilon", kEpsilon}}});
  };
  if (kind_ == Kind::layer) return normalized("layer", x, writer.weight(weight_), writer.weight(bias_));
  if (kind_ == Kind::batch) {
    const auto factor = weight_ * torch::rsqrt(running_variance_ + kEpsilon);
    return normalized("affine", x, writer.constant(factor), writer.constant(bias_ - running_mean_ * factor));
  }
  const auto zeros = torch::zeros_like(mean_scale_);
  const auto affine = [&](const std::string& input, const torch::Tensor& factor, const torch::Tensor& shift) {
    return normalized("affine", input, writer.constant(factor), writer.constant(shift));
  };
  const auto mean = affine(writer.pool(x, "nodes", "mean"), mean_scale_, zeros);
  const auto centered = writer.add({x, writer.csr_sum({{"candidate_of", mean}})}, {1.0, -1.0});
  const auto variance = writer.pool(writer.multiply(centered, centered), "nodes", "mean");
  // 1 / sqrt(v + ε) = exp(-½ ln(v + ε))
  const auto logarithm =
      writer.activate(writer.add({variance}, {}, writer.constant(torch::full_like(zeros, kEpsilon))), "log");
  const auto reciprocal = writer.activate(writer.add({logarithm}, {-0.5}), "exp");
  const auto scaled = writer.multiply(centered, writer.csr_sum({{"candidate_of", reciprocal}}));
  return normalized("affine", scaled, writer.weight(weight_), writer.weight(bias_));
}

bool is_running_statistic(const std::string& name) {
  return name.ends_with(".running_mean") || name.ends_with(".running_variance");
}

torch::Tensor state_counts(const PlanTensors& plan, size_t level) {
  auto counts = torch::ones_like(plan.nodes.counts);
  for (size_t i = plan.nodes.stages.size(); i-- > 0;) counts = csr_matmul(transposed(plan.nodes.stages[i]), counts);
  // Every pair has one state in each level, and the one above knows which it was below.
  for (size_t i = plan.layers.size(); i-- > level;) {
    if (plan.layers[i]->self.defined()) counts = csr_matmul(transposed(plan.layers[i]->self), counts);
  }
  return counts;
}

}  // namespace foretime::models
