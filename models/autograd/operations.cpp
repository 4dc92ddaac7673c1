#include <torch/csrc/autograd/custom_function.h>

#include "base/index_range.h"
#include "models/autograd/run.h"
#include "models/graph/error.h"
#include "models/sparse/sparse_ops.h"

namespace foretime::models {
namespace {

using namespace inference;

constexpr double kMomentum = 0.1;  // weight of a new batch in running statistics

torch::Tensor leaky(const torch::Tensor& x, double slope) {
  if (slope == 1.0) return x;
  return slope == 0.0 ? torch::relu(x) : torch::leaky_relu(x, slope);
}

torch::Tensor compute(const Select& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  const auto first = o.chosen.front(), count = std::ssize(o.chosen);
  if (o.chosen.back() - first == count - 1) return x.narrow(1, first, count);  // ascending without gaps
  return x.index_select(1, torch::tensor(o.chosen).to(x.device()));
}

torch::Tensor compute(const Transform& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  const auto shaped = o.log ? torch::sign(x) * torch::log1p(torch::abs(x)) : x;
  const int64_t width = x.size(1);
  const auto y =
      (shaped - run.weight(o.offset).narrow(0, o.start, width)) * run.weight(o.scale).narrow(0, o.start, width);
  return o.clip > 0 ? y.clamp(-o.clip, o.clip) : y;
}

torch::Tensor compute(const LayoutCodes& o, const AutogradRun& run) {
  const auto& rows = run.in(o.x);
  if (!rows.defined()) return {};
  const auto values = (rows.to(torch::kLong) - o.least).clamp(0, o.values - 1);
  const auto first = o.values * torch::arange(rows.size(1), values.options());
  const auto vectors = run.weight(o.table).index_select(0, (values + first).view(-1)).view({rows.size(0), -1});
  const auto& known = run.matrices().plan().is_layout;
  return vectors * (known.defined() ? known : torch::arange(rows.size(0), values.options()).unsqueeze(1) > 0);
}

torch::Tensor compute(const Lookup& o, const AutogradRun& run) {
  const CsrTensor& chosen = *run.matrices().matrix(o.matrix);
  return csr_matmul(chosen, run.weight(o.table).narrow(0, 0, chosen.cols));
}

torch::Tensor compute(const Dense& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  if (!x.defined()) return {};
  return leaky(torch::linear(x, run.weight_columns(o.weight, o.start, x.size(1)), run.weight(o.bias)), o.slope);
}

torch::Tensor compute(const Join& o, const AutogradRun& run) {
  std::vector<torch::Tensor> columns;
  torch::Tensor some;
  for (const Value input : o.inputs)
    if (run.in(input).defined()) some = run.in(input);
  for (const Value input : o.inputs) {
    const auto& x = run.in(input);
    columns.push_back(x.defined() ? x : torch::zeros({some.size(0), run.columns(input)}, some.options()));
  }
  return torch::cat(columns, 1);
}

torch::Tensor compute(const Add& o, const AutogradRun& run) {
  torch::Tensor sum;
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    const auto& x = run.in(o.inputs[i]);
    const double factor = i < o.factors.size() ? o.factors[i] : 1.0;
    if (!x.defined()) continue;
    if (!sum.defined()) sum = factor == 1.0 ? x : factor == -1.0 ? -x : x * factor;
    else sum = factor == 1.0 ? sum + x : factor == -1.0 ? sum - x : sum + x * factor;
  }
  if (!sum.defined()) return sum;
  if (o.bias.defined()) sum = sum + run.weight(o.bias);
  return o.constant == 0.0 ? sum : sum + o.constant;
}

torch::Tensor compute(const Average& o, const AutogradRun& run) {
  std::vector<torch::Tensor> inputs;
  for (const Value input : o.inputs) inputs.push_back(run.in(input));
  return torch::stack(inputs).mean(0);
}

torch::Tensor compute(const Multiply& o, const AutogradRun& run) {
  const auto &x = run.in(o.x), &z = run.in(o.z);
  return x.defined() && z.defined() ? x * z : torch::Tensor();
}

torch::Tensor compute(const Scale& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  if (!x.defined()) return {};
  const auto factors = run.weight(o.factors);
  return x * (o.offset == 0.0 ? factors : o.offset + factors);
}

torch::Tensor compute(const Activate& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  switch (o.mode) {
    case Activate::Mode::leaky: return leaky(x, o.number);
    case Activate::Mode::tanh: return torch::tanh(x);
    case Activate::Mode::exp: return torch::exp(x);
    case Activate::Mode::log: return torch::log(x);
    case Activate::Mode::rsqrt: return torch::rsqrt(x + o.number);
  }
  return x;
}

/// Normalises in the type of the parameters. GPUs do so in mixed precision; CPUs would use bfloat16.
torch::Tensor compute(const LayerNorm& o, const AutogradRun& run) {
  const auto weight = run.weight(o.weight);
  const auto x = run.in(o.x).to(weight.scalar_type());
  return torch::layer_norm(x, {x.size(1)}, weight, run.weight(o.bias), o.epsilon);
}

torch::Tensor compute(const BatchNorm& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  const auto weight = run.weight(o.weight), bias = run.weight(o.bias);
  auto running_mean = run.weight(o.mean), running_variance = run.weight(o.variance);
  const auto scaled = [&](const torch::Tensor& mean, const torch::Tensor& variance) {
    const auto factor = weight * torch::rsqrt(variance + o.epsilon);
    return x * factor + (bias - mean * factor);
  };
  if (!run.training() || run.statistics_frozen()) return scaled(running_mean, running_variance);
  const auto counts = state_counts(run.matrices().plan(), o.level);
  const auto total = counts.sum();
  const auto mean = (x * counts).sum(0) / total;
  const auto variance = ((x - mean).square() * counts).sum(0) / total;
  {
    const torch::NoGradGuard no_gradient;
    running_mean.lerp_(mean, kMomentum);
    running_variance.lerp_(variance * (total / (total - 1).clamp_min(1)), kMomentum);  // unbiased, as is usual
  }
  return scaled(mean, variance);
}

/// x / max(|x|, epsilon) by rows, whose gradient is (g - y (g · y)) / |x|, and g / epsilon for the shorter ones.
struct RowNormalization : torch::autograd::Function<RowNormalization> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x, double epsilon) {
    const auto scale = x.norm(2, -1, /*keepdim=*/true).clamp_min(epsilon).reciprocal();
    const auto y = x * scale;
    context->save_for_backward({y, scale});
    context->saved_data["largest"] = 1 / epsilon;
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &y = saved[0], &scale = saved[1], &g = gradients[0];
    const auto along = (g * y).sum(-1, /*keepdim=*/true) * (scale < context->saved_data["largest"].toDouble());
    return {(g - y * along) * scale, torch::Tensor()};
  }
};

torch::Tensor compute(const L2Normalize& o, const AutogradRun& run) {
  return RowNormalization::apply(run.in(o.x), o.epsilon);
}

torch::Tensor compute(const Standardize& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  const auto& group_ptr = run.group_ptr();
  std::vector<torch::Tensor> groups;
  for (size_t g = 0; g + 1 < group_ptr.size(); ++g) {
    const auto rows = entries_of(group_ptr, g);
    const auto own = x.narrow(0, rows.first(), rows.size());
    const auto centered = own - own.mean(0, /*keepdim=*/true);
    groups.push_back(centered * torch::rsqrt(centered.square().mean(0, /*keepdim=*/true) + o.epsilon));
  }
  return torch::cat(groups);
}

torch::Tensor compute(const CandidateSoftmax& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  const auto& group_ptr = run.group_ptr();
  const auto logits = x * torch::exp(-run.weight(o.log_temperature));
  std::vector<torch::Tensor> attended;
  for (size_t g = 0; g + 1 < group_ptr.size(); ++g) {
    const auto rows = entries_of(group_ptr, g);
    attended.push_back(torch::softmax(logits.narrow(0, rows.first(), rows.size()), 0) *
                       static_cast<double>(rows.size()));
  }
  return torch::cat({x, x * torch::cat(attended)}, 1);
}

torch::Tensor compute(const CsrSum& o, const AutogradRun& run) {
  std::vector<CsrTermTensor> terms;
  std::vector<torch::Tensor> own;
  for (size_t t = 0; t < o.inputs.size(); ++t) {
    const auto& x = run.in(o.inputs[t]);
    if (!x.defined() || run.matrices().is_zero(o.matrices[t])) continue;
    const CsrTensor* matrix = run.matrices().matrix(o.matrices[t]);
    if (matrix) terms.emplace_back(matrix, x);
    else own.push_back(x);
  }
  if (own.empty()) return terms.empty() ? torch::Tensor() : csr_sum(terms, {run.weight(o.bias), o.slope});
  // A value that stays where it is costs no pass over the rows.
  auto sum = terms.empty() ? (o.bias.defined() ? own[0] + run.weight(o.bias) : own[0])
                           : csr_sum(terms, {run.weight(o.bias), 1.0}) + own[0];
  for (size_t i = 1; i < own.size(); ++i) sum = sum + own[i];
  return leaky(sum, o.slope);
}

/// Returns whether matrix * (x * weightᵀ) takes fewer multiplications than (matrix * x) * weightᵀ. Usually it does,
/// since plans seldom have more states below than above.
bool multiplies_first(const CsrTensor* matrix, const torch::Tensor& weight) {
  if (!matrix || !matrix->row_ptr.defined()) return true;
  const int64_t output = weight.size(0), input = weight.size(1), entries = matrix->columns.size(0);
  return matrix->cols * input * output + entries * output <= matrix->rows * input * output + entries * input;
}

torch::Tensor compute(const CsrDense& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  std::vector<const CsrTensor*> matrices;
  std::vector<torch::Tensor> weights;
  bool all_first = true;
  for (size_t t = 0; t < o.weights.size(); ++t) {
    matrices.push_back(run.matrices().matrix(o.matrices[t]));
    weights.push_back(run.weight(o.weights[t]));
    all_first = all_first && multiplies_first(matrices.back(), weights.back());
  }
  const auto bias = run.weight(o.bias);
  if (!all_first) {
    // One product with all weights side by side; what stays where it is comes first.
    std::vector<torch::Tensor> inputs, sides;
    for (const bool gathers : {true, false}) {
      for (size_t t = 0; t < matrices.size(); ++t) {
        if ((!matrices[t] || !matrices[t]->row_ptr.defined()) != gathers) continue;
        inputs.push_back(matrices[t] ? csr_matmul(*matrices[t], x) : x);
        sides.push_back(weights[t]);
      }
    }
    const bool one = inputs.size() == 1;
    return leaky(torch::linear(one ? inputs[0] : torch::cat(inputs, 1), one ? sides[0] : torch::cat(sides, 1), bias),
                 o.slope);
  }
  std::vector<CsrTermTensor> terms;
  torch::Tensor own;
  for (size_t t = 0; t < matrices.size(); ++t) {
    auto product = torch::linear(x, weights[t]);
    if (matrices[t]) terms.emplace_back(matrices[t], std::move(product));
    else own = own.defined() ? own + product : product;
  }
  if (!own.defined()) return csr_sum(terms, {bias, o.slope});
  return leaky(csr_sum(terms, {bias, 1.0}) + own, o.slope);
}

torch::Tensor compute(const CsrMax& o, const AutogradRun& run) {
  return csr_max(*run.matrices().matrix(o.matrix), run.in(o.x));
}

torch::Tensor compute(const HeadDot& o, const AutogradRun& run) {
  const auto& x = run.in(o.x);
  const auto weight = run.weight(o.weight);
  return (x.view({x.size(0), weight.size(0), -1}) * weight).sum(2);
}

torch::Tensor compute(const AdditiveAttention& o, const AutogradRun& run) {
  const CsrTensor& matrix = *run.matrices().matrix(o.matrix);
  const auto sources = entry_sources(matrix), targets = entry_targets(matrix);
  const auto logits = csr_sum({{&sources, run.in(o.source)}, {&targets, run.in(o.target)}}, {.slope = o.slope});
  return weighted_sum(matrix, edge_softmax(matrix, logits), run.in(o.x));
}

torch::Tensor compute(const DotAttention& o, const AutogradRun& run) {
  const CsrTensor& matrix = *run.matrices().matrix(o.matrix);
  const auto logits = entry_products(matrix, run.in(o.query) * o.scale, run.in(o.key), o.heads);
  return weighted_sum(matrix, edge_softmax(matrix, logits), run.in(o.value));
}

torch::Tensor compute(const PoolStates& o, const AutogradRun& run) {
  auto x = run.in(o.x);
  for (const CsrTensor& stage : run.matrices().pool(o.matrix).stages)
    x = o.mode == PoolStates::Mode::max ? csr_max(stage, x) : csr_matmul(stage, x);
  return x;
}

torch::Tensor compute(const PoolMean& o, const AutogradRun& run) {
  return run.in(o.sums) / run.matrices().counts(o.matrix).clamp_min(1.0);
}

torch::Tensor compute(const TopNodes& o, const AutogradRun& run) {
  auto& matrices = run.matrices();
  auto graphs = matrices.graphs(o.adjacency.at);
  auto x = keep_top_nodes(o, run.in(o.x), run.weight(o.weight), graphs);
  matrices.provide_graphs(run.result().id, std::move(graphs));
  return x;
}

torch::Tensor compute(const Dropout& o, const AutogradRun& run) {
  return torch::dropout(run.in(o.x), o.probability, run.training());
}

}  // namespace

torch::Tensor evaluate(const Operation& operation, const AutogradRun& run) {
  return std::visit([&](const auto& o) { return compute(o, run); }, operation);
}

}  // namespace foretime::models
