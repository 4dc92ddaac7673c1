#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "configs/settings.h"
#include "models/model.h"
#include "worker/state/optimizer.h"

namespace foretime::worker {

/// A mean of a model's weights over the steps of its training, which takes their place wherever the model is judged or
/// used; training itself goes on with the last ones. Floating-point buffers (running statistics of a normalisation) are
/// averaged as weights are, others are those of the last step that counts.
///   ema  Polyak-Ruppert averaging with exponential decay d: after n steps that count, step i weighs d^(n - i), over
///        the sum of these weights. That is the bias correction of Adam (Kingma and Ba 2015, section 3): the first
///        steps are not pulled to the weights that training began with.
///   swa  stochastic weight averaging (Izmailov et al., arXiv 1803.05407): the mean of the weights of every
///        averaging.every_steps-th step. A constant or cyclic learning rate is the schedule's business; statistics of
///        normalisations are averaged, where the paper makes a pass over the data for them.
/// Steps up to averaging.start of all steps do not count. Weights are the same on all ranks, and so is their mean.
class WeightAverage {
 public:
  /// Keeps a reference to the model. `total_steps`: of the whole training.
  WeightAverage(const configs::AveragingSettings& settings, const models::CostModel& model, int64_t total_steps);

  /// After optimiser step `step` (1, 2, …), each step once.
  void update(int64_t step);
  /// Steps that count so far. Without any there is no average, and the last weights stand.
  int64_t count() const { return count_; }
  /// The averaged tensors by the names that model_tensors gives them; empty where none counts.
  const NamedTensors& tensors() const { return average_; }

  /// The average as a file of a checkpoint (safetensors). Only where a step counts.
  std::string checkpoint_file() const;
  /// False where the file is an average of another type, and this one stays as it is. Throws coordinator::RunError
  /// where the file is damaged or of another model.
  bool restore(const std::string& file, const std::string& origin);

 private:
  configs::AveragingSettings settings_;
  const models::CostModel& model_;
  int64_t first_;  // steps before the first one that counts
  int64_t count_ = 0;
  NamedTensors average_;
};

/// Null where averaging.type is none.
std::unique_ptr<WeightAverage> make_weight_average(const configs::AveragingSettings& settings,
                                                   const models::CostModel& model, int64_t total_steps);

/// The averaged weights lie in the model as long as this lives; then those that it had, bit for bit. Nothing happens
/// where `average` is null or has no step that counts. The model may not be trained in between.
class AveragedWeights {
 public:
  AveragedWeights(models::CostModel& model, const WeightAverage* average);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  NamedTensors own_;   // the model's tensors
  NamedTensors kept_;  // what they held before
};

/// The file of a checkpoint that holds the average.
constexpr const char* kAverageFile = "average.safetensors";

}  // namespace foretime::worker
