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
  /// Parameters are contiguous, and of one type and device.
  Adam(NamedTensors parameters, const configs::OptimizerSettings& settings);
  void zero_grad();
  /// One update from the parameters' .grad; parameters without one are left alone.
  void step(double learning_rate);
  /// clip_gradients and step in one: [1] float64, the gradients' norm before clipping, on the parameters' device. On a
  /// GPU the host waits for nothing; gradients are left as they are.
  torch::Tensor clip_and_step(double learning_rate);
  /// First and second moments as exp_avg.NAME and exp_avg_sq.NAME; the number of steps is separate.
  NamedTensors moments() const;
  int64_t steps() const { return steps_; }
  /// Throws std::out_of_range where a moment is missing.
  void restore(const std::map<std::string, torch::Tensor>& moments, int64_t steps);
  const NamedTensors& parameters() const { return parameters_; }

 private:
  /// The gradients of all parameters that have one, one after another.
  torch::Tensor gradients();
  template <class T>
  torch::Tensor step_by_bodies(double learning_rate);

  NamedTensors parameters_;
  configs::OptimizerSettings settings_;
  torch::Tensor all_first_, all_second_;       // the moments of all parameters, one after another
  std::vector<torch::Tensor> first_, second_;  // views of them, one for each parameter
  std::vector<bool> with_gradient_;            // the parameters of `segments_`
  torch::Tensor segments_;                     // models/device/step_bodies.h, as bytes
  int64_t segment_count_ = 0;
  int64_t steps_ = 0;
};

}  // namespace foretime::worker
