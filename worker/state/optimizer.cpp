#include "worker/state/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "models/gpu/launch.h"
#include "models/gpu/step_kernels.h"

namespace foretime::worker {

double learning_rate_at(const configs::OptimizerSettings& settings, int64_t step, int64_t total_steps) {
  const double full = settings.learning_rate;
  if (step < settings.warmup_steps) return full * (step + 1) / settings.warmup_steps;
  if (settings.schedule != configs::Schedule::cosine) return full;
  const double span = std::max<int64_t>(1, total_steps - settings.warmup_steps);
  const double progress = std::min(1.0, (step - settings.warmup_steps) / span);
  const double low = settings.final_ratio;
  return full * (low + (1 - low) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

double clip_gradients(const NamedTensors& parameters, const configs::OptimizerSettings& settings) {
  const double limit = settings.clip_norm;
  const bool each = settings.clip == configs::ClipScope::tensor;
  double square = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.grad().defined()) continue;
    const double own = parameter.grad().to(torch::kDouble).square().sum().item<double>();
    square += own;
    if (each && limit > 0 && own > limit * limit) parameter.grad().mul_(limit / std::sqrt(own));
  }
  const double norm = std::sqrt(square);
  if (each || limit <= 0 || !(norm > limit)) return norm;
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) parameter.grad().mul_(limit / norm);
  return norm;
}

Adam::Adam(NamedTensors parameters, const configs::OptimizerSettings& settings)
    : parameters_(std::move(parameters)), settings_(settings) {
  int64_t count = 0;
  for (const auto& [name, parameter] : parameters_) count += parameter.numel();
  const auto options =
      parameters_.empty() ? torch::TensorOptions() : parameters_.front().second.options().requires_grad(false);
  all_first_ = torch::zeros({count}, options);
  all_second_ = torch::zeros({count}, options);
  int64_t at = 0;
  for (const auto& [name, parameter] : parameters_) {
    first_.push_back(all_first_.narrow(0, at, parameter.numel()).view(parameter.sizes()));
    second_.push_back(all_second_.narrow(0, at, parameter.numel()).view(parameter.sizes()));
    at += parameter.numel();
  }
}

/// A factor as float32 holds it. LibTorch refuses a larger one and names no setting; with the largest one the training
/// diverges, which is told.
static double within_float(double factor) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return std::clamp(factor, -kMost, kMost);
}

void Adam::zero_grad() {
  for (auto& [name, parameter] : parameters_)
    if (parameter.grad().defined()) parameter.mutable_grad() = torch::Tensor();
}

void Adam::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  ++steps_;
  const double exponent = steps_;
  const double first_correction = 1 - std::pow(settings_.beta1, exponent);
  const double second_root = std::sqrt(1 - std::pow(settings_.beta2, exponent));
  const bool decoupled = settings_.type == configs::OptimizerType::adamw;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto& parameter = parameters_[i].second;
    auto gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (settings_.weight_decay != 0) {
      if (decoupled) parameter.mul_(within_float(1 - learning_rate * settings_.weight_decay));
      else gradient = gradient.add(parameter, settings_.weight_decay);
    }
    first_[i].mul_(settings_.beta1).add_(gradient, 1 - settings_.beta1);
    second_[i].mul_(settings_.beta2).addcmul_(gradient, gradient, 1 - settings_.beta2);
    parameter.addcdiv_(first_[i], second_[i].sqrt().div_(second_root).add_(settings_.epsilon),
                       within_float(-learning_rate / first_correction));
  }
}

torch::Tensor Adam::clip_and_step(double learning_rate) {
  if (parameters_.empty() || !gpu::uses_gpu_kernels(all_first_.device())) {
    const double norm = clip_gradients(parameters_, settings_);
    step(learning_rate);
    return torch::full({1}, norm, torch::kDouble);
  }
  const torch::NoGradGuard no_grad;
  torch::Tensor norm;
  AT_DISPATCH_FLOATING_TYPES(all_first_.scalar_type(), "clip_and_step",
                             [&] { norm = fused_step<scalar_t>(learning_rate); });
  return norm;
}

template <class T>
torch::Tensor Adam::fused_step(double learning_rate) {
  const auto device = all_first_.device();
  const auto flat = gradients();
  const auto* segments = reinterpret_cast<const gpu::Segment<T>*>(segments_.data_ptr());
  const auto numbers = torch::dtype(torch::kDouble).device(device);
  const auto squares = torch::empty({segment_count_ * gpu::kSquareLanes}, numbers);
  const auto norms = torch::empty({segment_count_}, numbers), norm = torch::empty({1}, numbers);
  gpu::for_each(device, gpu::SquareSums<T>{segments, flat.data_ptr<T>(), squares.data_ptr<double>()}, squares.numel());
  gpu::for_each(device, gpu::SegmentNorms{squares.data_ptr<double>(), norms.data_ptr<double>()}, segment_count_);
  gpu::for_each(
      device, gpu::GlobalNorm{norms.data_ptr<double>(), static_cast<int>(segment_count_), norm.data_ptr<double>()}, 1);
  ++steps_;
  const double exponent = steps_;
  gpu::AdamStep<T> update;
  update.segments = segments;
  update.segment_count = segment_count_;
  update.gradient = flat.data_ptr<T>();
  update.first_moments = all_first_.data_ptr<T>();
  update.second_moments = all_second_.data_ptr<T>();
  update.clips_each = settings_.clip == configs::ClipScope::tensor;
  update.norms = (update.clips_each ? norms : norm).template data_ptr<double>();
  update.clip_norm = settings_.clip_norm;
  update.learning_rate = learning_rate;
  update.weight_decay = settings_.weight_decay;
  update.beta1 = settings_.beta1;
  update.beta2 = settings_.beta2;
  update.epsilon = settings_.epsilon;
  update.first_correction = 1 - std::pow(settings_.beta1, exponent);
  update.second_root = std::sqrt(1 - std::pow(settings_.beta2, exponent));
  update.decoupled = settings_.type == configs::OptimizerType::adamw;
  gpu::for_each(device, update, flat.numel());
  return norm;
}

torch::Tensor Adam::gradients() {
  std::vector<torch::Tensor> parts;
  std::vector<bool> with_gradient;
  for (const auto& [name, parameter] : parameters_) {
    with_gradient.push_back(parameter.grad().defined());
    if (with_gradient.back()) parts.push_back(parameter.grad().contiguous().view(-1));
  }
  if (with_gradient != with_gradient_) {
    with_gradient_ = std::move(with_gradient);
    AT_DISPATCH_FLOATING_TYPES(all_first_.scalar_type(), "segments", [&] {
      std::vector<gpu::Segment<scalar_t>> table;
      int64_t gradient = 0, moments = 0;
      for (size_t i = 0; i < parameters_.size(); ++i) {
        const auto& parameter = parameters_[i].second;
        if (with_gradient_[i]) {
          table.push_back({parameter.data_ptr<scalar_t>(), gradient, gradient + parameter.numel(), moments});
          gradient += parameter.numel();
        }
        moments += parameter.numel();
      }
      segment_count_ = std::ssize(table);
      const int64_t bytes = table.size() * sizeof(table[0]);
      segments_ = torch::from_blob(table.data(), {bytes}, torch::kByte).clone().to(all_first_.device());
    });
  }
  // One after another already, where a reducer has left them so.
  bool joined = !parts.empty();
  for (size_t i = 1; joined && i < parts.size(); ++i)
    joined = static_cast<char*>(parts[i - 1].data_ptr()) + parts[i - 1].nbytes() == parts[i].data_ptr() &&
             parts[i].storage().is_alias_of(parts[0].storage());
  if (!joined) return parts.empty() ? all_first_.narrow(0, 0, 0) : torch::cat(parts);
  int64_t count = 0;
  for (const auto& part : parts) count += part.numel();
  return parts[0].as_strided({count}, {1});
}

NamedTensors Adam::moments() const {
  NamedTensors all;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    all.emplace_back("exp_avg." + parameters_[i].first, first_[i]);
    all.emplace_back("exp_avg_sq." + parameters_[i].first, second_[i]);
  }
  return all;
}

void Adam::restore(const std::map<std::string, torch::Tensor>& moments, int64_t steps) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    first_[i].copy_(moments.at("exp_avg." + parameters_[i].first));
    second_[i].copy_(moments.at("exp_avg_sq." + parameters_[i].first));
  }
  steps_ = steps;
}

}  // namespace foretime::worker
