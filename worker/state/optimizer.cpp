#include "worker/state/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace foretime::worker {

double learning_rate_at(const configs::OptimizerSettings& settings, int64_t step, int64_t total_steps) {
  const double full = settings.learning_rate;
  if (step < settings.warmup_steps)
    return full * static_cast<double>(step + 1) / static_cast<double>(settings.warmup_steps);
  if (settings.schedule != configs::Schedule::cosine) return full;
  const auto span = static_cast<double>(std::max<int64_t>(1, total_steps - settings.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - settings.warmup_steps) / span);
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
  for (const auto& [name, parameter] : parameters) {
    if (parameter.grad().defined()) parameter.grad().mul_(limit / norm);
  }
  return norm;
}

Adam::Adam(NamedTensors parameters, const configs::OptimizerSettings& settings)
    : parameters_(std::move(parameters)), settings_(settings) {
  for (const auto& [name, parameter] : parameters_) {
    first_.push_back(torch::zeros_like(parameter));
    second_.push_back(torch::zeros_like(parameter));
  }
}

void Adam::zero_grad() {
  for (auto& [name, parameter] : parameters_) {
    if (parameter.grad().defined()) parameter.mutable_grad() = torch::Tensor();
  }
}

void Adam::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  ++steps_;
  const auto exponent = static_cast<double>(steps_);
  const double first_correction = 1 - std::pow(settings_.beta1, exponent);
  const double second_root = std::sqrt(1 - std::pow(settings_.beta2, exponent));
  const bool decoupled = settings_.type == configs::OptimizerType::adamw;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto& parameter = parameters_[i].second;
    auto gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (settings_.weight_decay != 0) {
      if (decoupled) {
        parameter.mul_(1 - learning_rate * settings_.weight_decay);
      } else {
        gradient = gradient.add(parameter, settings_.weight_decay);
      }
    }
    first_[i].mul_(settings_.beta1).add_(gradient, 1 - settings_.beta1);
    second_[i].mul_(settings_.beta2).addcmul_(gradient, gradient, 1 - settings_.beta2);
    parameter.addcdiv_(first_[i], second_[i].sqrt().div_(second_root).add_(settings_.epsilon),
                       -learning_rate / first_correction);
  }
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
