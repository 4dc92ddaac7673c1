#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/no_copy.h"
#include "configs/settings.h"
#include "models/model.h"
#include "worker/state/optimizer.h"

namespace foretime::worker {

/// Averages a model's weights over the steps of its training. The average replaces the weights when the model is
/// evaluated or used; training continues with the last weights. Floating-point buffers (running statistics of
/// normalisations) are averaged like weights; other buffers are copied from the last counted step.
///   ema  Polyak-Ruppert averaging with exponential decay d: after n counted steps, step i has the weight d^(n - i)
///        divided by the sum of these weights. This is the bias correction of Adam (Kingma and Ba 2015, section 3): the
///        initial weights do not influence the average.
///   swa  stochastic weight averaging (Izmailov et al., arXiv 1803.05407): the mean of the weights of every
///        averaging.every_steps-th step. The schedule decides whether the learning rate is constant or cyclic.
///        Statistics of normalisations are averaged; the paper recomputes them in a pass over the data.
/// The first averaging.start (a fraction) of all steps do not count. Weights and averages are equal on all ranks.
class WeightAverage {
 public:
  /// Keeps a reference to the model. `total_steps` is the number of steps of the whole training.
  WeightAverage(const configs::AveragingSettings& settings, const models::CostModel& model, int64_t total_steps);

  /// Adds the model's weights after optimiser step `step` (1, 2, …) if the step counts. Must be called after each step.
  void update(int64_t step);
  /// Returns the number of steps that have counted. If it is 0, there is no average yet.
  int64_t count() const { return count_; }
  /// Returns the averaged tensors in the order and with the names of model_tensors; empty if no step has counted.
  const NamedTensors& tensors() const { return average_; }

  /// Returns the average as the content of the checkpoint file kAverageFile. At least one step must have counted.
  std::string checkpoint_file() const;
  /// Restores the average from `file`, the content of checkpoint_file(). Returns false, without a change, for another
  /// averaging.type. Throws coordinator::RunError, naming `origin`, if it is damaged or of another model.
  bool restore(const std::string& file, const std::string& origin);

 private:
  configs::AveragingSettings settings_;
  const models::CostModel& model_;
  int64_t first_;  // number of steps before the first one that counts
  int64_t count_ = 0;
  NamedTensors average_;
};

/// Returns the average that the settings ask for; null if averaging.type is none.
std::unique_ptr<WeightAverage> make_weight_average(const configs::AveragingSettings& settings,
                                                   const models::CostModel& model, int64_t total_steps);

/// Replaces a model's parameters and buffers by the average, and restores them bit for bit in the destructor. Does
/// nothing if `average` is null or no step has counted. The model must not be trained meanwhile.
class AveragedWeights : NoCopy {
 public:
  AveragedWeights(models::CostModel& model, const WeightAverage* average);
  ~AveragedWeights();

 private:
  NamedTensors model_tensors_;  // tensors of the model
  NamedTensors saved_values_;   // their values before the replacement
};

/// Names the checkpoint file with the average.
constexpr const char* kAverageFile = "average.safetensors";

}  // namespace foretime::worker
