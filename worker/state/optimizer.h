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

/// Returns the learning rate of step `step` (0, 1, …): it rises linearly over warmup_steps to `learning_rate`; then it
/// is constant or, with schedule cosine, falls to learning_rate * final_ratio at `total_steps` and stays there.
double learning_rate_at(const configs::OptimizerSettings& settings, int64_t step, int64_t total_steps);

/// Scales the gradients in place so that the ℓ2 norm of all together, or with optimizer.clip tensor that of each
/// gradient, is at most optimizer.clip_norm (0: no limit). Returns the ℓ2 norm of all together before scaling.
double clip_gradients(const NamedTensors& parameters, const configs::OptimizerSettings& settings);

/// Optimises by Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), with weight decay as each defines it.
/// It replaces LibTorch's class because checkpoints store the state by parameter name, and LibTorch 1.13 and 2.x use
/// different keys.
class Adam {
 public:
  /// Takes parameters that are contiguous and have one type and device.
  Adam(NamedTensors parameters, const configs::OptimizerSettings& settings);
  /// Makes all gradients undefined.
  void zero_grad();
  /// Updates all parameters by their gradients. Parameters without a gradient stay unchanged.
  void step(double learning_rate);
  /// Does clip_gradients() and step(). Returns the ℓ2 norm of all gradients before clipping: [1] float64. On a GPU the
  /// host does not wait for the result, which stays there, and the stored gradients stay unclipped.
  torch::Tensor clip_and_step(double learning_rate);
  /// Returns the first moment of each parameter NAME as exp_avg.NAME, and the second as exp_avg_sq.NAME.
  NamedTensors moments() const;
  /// Returns the number of updates.
  int64_t steps() const { return steps_; }
  /// Copies moments, named as by moments(), and sets steps(). Throws std::out_of_range if one is missing.
  void restore(const std::map<std::string, torch::Tensor>& moments, int64_t steps);
  const NamedTensors& parameters() const { return parameters_; }

 private:
  /// Returns the gradients of all parameters that have one, concatenated.
  torch::Tensor gradients();
  /// Does clip_and_step() by GPU kernels for parameters of type T.
  template <class T>
  torch::Tensor fused_step(double learning_rate);

  NamedTensors parameters_;
  configs::OptimizerSettings settings_;
  torch::Tensor all_first_, all_second_;       // concatenated moments of all parameters
  std::vector<torch::Tensor> first_, second_;  // views of `all_first_` and `all_second_`, one for each parameter
  std::vector<bool> with_gradient_;            // [parameters] whether a parameter has a gradient and so a segment
  torch::Tensor segments_;                     // bytes of the array of gpu::Segment (models/gpu/step_kernels.h)
  int64_t segment_count_ = 0;                  // number of segments: parameters with a gradient
  int64_t steps_ = 0;
};

}  // namespace foretime::worker
