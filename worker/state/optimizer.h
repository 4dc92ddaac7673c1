#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "models/safetensors.h"

namespace foretime::worker {

/// A model's parameters by name, in the order of registration.
using models::NamedTensors;

/// The learning rate of a step (0, 1, …): linear warm-up, then constant, or a cosine from the full rate to final_ratio
/// of it.
double learning_rate_at(const configs::OptimizerSettings& settings, int64_t step, int64_t total_steps);

/// Scales gradients so that their ℓ2 norm is at most optimizer.clip_norm (0: leaves them): the global one, or with
/// optimizer.clip tensor each gradient's own. Returns the global norm before.
double clip_gradients(const NamedTensors& parameters, const configs::OptimizerSettings& settings);

/// Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), with weight decay as each defines it. Ours rather
/// than LibTorch's because its state must go into checkpoints by parameter name, and LibTorch 1.13 and 2.x keep theirs
/// under different keys.
class Adam {
 public:
  Adam(NamedTensors parameters, const configs::OptimizerSettings& settings);
  void zero_grad();
  /// One update from the parameters' .grad; parameters without one are left alone.
  void step(double learning_rate);
  /// First and second moments as exp_avg.NAME and exp_avg_sq.NAME; the number of steps is separate.
  NamedTensors moments() const;
  int64_t steps() const { return steps_; }
  /// Throws std::out_of_range where a moment is missing.
  void restore(const std::map<std::string, torch::Tensor>& moments, int64_t steps);
  const NamedTensors& parameters() const { return parameters_; }

 private:
  NamedTensors parameters_;
  configs::OptimizerSettings settings_;
  std::vector<torch::Tensor> first_, second_;
  int64_t steps_ = 0;
};

}  // namespace foretime::worker
