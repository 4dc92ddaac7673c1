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

/// Holds the results of a step over all ranks.
struct StepResult {
  int64_t step = 0;                // number of finished steps
  double loss = 0;                 // mean loss of the step's batches
  double candidates = 0;           // number of candidates that the step trained on
  double stop_requests = 0;        // number of ranks whose listeners request a stop
  double checkpoint_requests = 0;  // number of ranks whose listeners request a checkpoint
  double failed_stores = 0;        // number of ranks that could not open a group
  double gradient_norm = 0;        // ℓ2 norm of the gradient before clipping
};

/// Takes optimiser steps on all ranks: optimizer.accumulation batches, one reduction of gradients and one update each.
class TrainingStep {
 public:
  /// Keeps references. `events` is asked for requests to stop and to write a checkpoint at each step.
  TrainingStep(RunContext& run, TrainingListener& events);

  /// Takes step `step` (0, 1, …). If `read_back` is set, waits for a GPU and returns the results of all steps since the
  /// last such call, in order; else returns an empty list. All ranks call it with equal arguments. With `read_back`,
  /// throws coordinator::RunError if the training has diverged, and DataError if a rank could not open a group.
  std::vector<StepResult> take(int64_t step, bool read_back);
  /// Makes all later steps train the parameters of the head only (is_head_parameter).
  void train_head_only();

  StepMonitor& monitor() { return monitor_; }

 private:
  void begin(int64_t step);
  /// Returns batch `part` (0, 1, …) of the accumulated batches of a step.
  Batch next_batch(int64_t step, int64_t part);
  std::vector<torch::Tensor> forward(const Batch& batch);
  void backward(const torch::Tensor& loss);
  /// Finishes the reduction of gradients, and starts that of `totals`. Returns the latter's work; null with one rank.
  std::unique_ptr<comm::Work> reduce(torch::Tensor& totals);
  /// Updates the weights, and returns the gradient's ℓ2 norm before clipping, [1].
  torch::Tensor update(int64_t step);
  /// Waits for `reduction` if it is not null, and keeps the step's numbers for read_results().
  void finish(const torch::Tensor& totals, const torch::Tensor& norm, comm::Work* reduction);
  /// Copies the results of all unread steps to the host and returns them. Throws as take() does.
  std::vector<StepResult> read_results();

  /// Makes a reducer for the gradients of these parameters.
  void reduce_parameters(const NamedTensors& parameters);
  /// Sets the running statistics of normalisations to their means over ranks.
  void average_running_statistics();

  RunContext& run_;
  TrainingListener& events_;
  Sampler sampler_;
  BatchLoader loader_;
  std::unique_ptr<comm::GradientReducer> reducer_;
  StepMonitor monitor_;
  StepResult own_;          // values of this rank in the current step, without values that are still on the device
  torch::Tensor own_loss_;  // [1] float64
  struct Unread {
    StepResult known;  // values that the host knew when the step ended
    // float64 on the device: loss and norm; with several ranks the sums of all values, then the norm
    torch::Tensor numbers;
  };
  std::vector<Unread> unread_;                     // steps since the last read-back
  std::vector<torch::Tensor> running_statistics_;  // buffers that a step changes (models/layers/layers.h)
  bool head_only_ = false;
};

}  // namespace foretime::worker
