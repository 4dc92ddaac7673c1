#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/algorithms/gradient_reducer.h"
#include "worker/batches/batch.h"
#include "worker/profile/step_monitor.h"
#include "worker/step/events.h"
#include "worker/step/run_context.h"

namespace foretime::worker {

/// Sums over all ranks of one step. They travel with the gradients, so that nobody waits for them alone.
struct StepTotals {
  double loss = 0;
  double candidates = 0;     // trained on
  double stop_requests = 0;  // ranks that were asked to stop
  double failed_stores = 0;  // ranks that could not open a group
};

/// One optimiser step of all ranks: optimizer.accumulation batches, one reduction of gradients, one update.
class TrainingStep {
 public:
  /// Keeps references. `events` are asked whether to stop.
  TrainingStep(RunContext& run, TrainingListener& events);

  /// Takes step `step` (0, 1, …). All ranks call it. Throws coordinator::RunError where training has diverged,
  /// DataError where a rank could not open a group.
  StepTotals take(int64_t step);
  /// From now on the parameters of the head alone are trained.
  void train_head_only();

  double gradient_norm() const { return gradient_norm_; }  // of the last step, before clipping
  StepMonitor& monitor() { return monitor_; }

 private:
  void begin(int64_t step);
  Batch next_batch(int64_t step, int64_t part);
  std::vector<torch::Tensor> forward(const Batch& batch);
  void backward(const torch::Tensor& loss);
  std::unique_ptr<comm::Work> reduce(torch::Tensor& totals);
  void update(int64_t step);
  StepTotals finish(int64_t step, const torch::Tensor& totals, comm::Work& reduction);

  void reduce_parameters(const NamedTensors& parameters);
  void average_running_statistics();

  RunContext& run_;
  TrainingListener& events_;
  Sampler sampler_;
  BatchLoader loader_;
  std::unique_ptr<comm::GradientReducer> reducer_;
  StepMonitor monitor_;
  StepTotals own_;                                 // of this rank, in the step under way
  std::vector<torch::Tensor> running_statistics_;  // buffers that a step changes (models/layers/layers.h)
  double gradient_norm_ = 0;
  bool head_only_ = false;
};

}  // namespace foretime::worker
