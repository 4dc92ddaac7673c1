#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "models/safetensors.h"

namespace foretime::worker {

/// Holds a model's parameters by name, in the order of registration.
using models::NamedTensors;

/// Returns the learning rate of step `step` (0, 1, …): linear warm-up, then constant, or a cosine from the full rate to
/// final_ratio of it.
double learning_rate_at(const configs::OptimizerSettings& settings, int64_t step, int64_t total_steps);

/// Scales gradients so that their ℓ2 norm is at most optimizer.clip_norm (0: no limit): the global norm, or with
/// optimizer.clip tensor each gradient's norm. Returns the global norm before scaling.
double clip_gradients(const NamedTensors& parameters, const configs::OptimizerSettings& settings);

/// Optimises by Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), with weight decay as each defines it.
/// It replaces LibTorch's class because checkpoints store the state by parameter name, and LibTorch 1.13 and 2.x use
/// different keys.
class Adam {
 public:
  /// Takes parameters that are contiguous and have one type and device.
  Adam(NamedTensors parameters, const configs::OptimizerSettings& settings);
  void zero_grad();
  /// Updates all parameters by their .grad; parameters without one stay unchanged.
  void step(double learning_rate);
  /// Clips gradients and updates the parameters. Returns the gradients' norm before clipping, [1] float64 on the
  /// parameters' device. The host does not wait for the GPU; the stored gradients stay unchanged.
  torch::Tensor clip_and_step(double learning_rate);
  /// Returns the first and second moments as exp_avg.NAME and exp_avg_sq.NAME. The number of steps is not among them.
  NamedTensors moments() const;
  int64_t steps() const { return steps_; }
  /// Throws std::out_of_range if a moment is missing.
  void restore(const std::map<std::string, torch::Tensor>& moments, int64_t steps);
  const NamedTensors& parameters() const { return parameters_; }

 private:
  /// Returns the gradients of all parameters that have one, concatenated.
  torch::Tensor gradients();
  template <class T>
  torch::Tensor fused_step(double learning_rate);

  NamedTensors parameters_;
  configs::OptimizerSettings settings_;
  torch::Tensor all_first_, all_second_;       // concatenated moments of all parameters
  std::vector<torch::Tensor> first_, second_;  // views of `all_first_` and `all_second_`, one for each parameter
  std::vector<bool> with_gradient_;            // true: `segments_` includes the parameter
  torch::Tensor segments_;                     // models/gpu/step_kernels.h, as bytes
  int64_t segment_count_ = 0;
  int64_t steps_ = 0;
};

}  // namespace foretime::worker
