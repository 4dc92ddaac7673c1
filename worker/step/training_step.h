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

/// Holds the results of a step over all ranks. Sums are reduced together with the gradients, without a separate
/// message.
struct StepResult {
  int64_t step = 0;  // number of finished steps
  double loss = 0;
  double candidates = 0;           // number of candidates that the step trained on
  double stop_requests = 0;        // number of ranks whose listeners request a stop
  double checkpoint_requests = 0;  // number of ranks whose listeners request a checkpoint
  double failed_stores = 0;        // number of ranks that could not open a group
  double gradient_norm = 0;        // norm before clipping
};

/// Takes the optimiser steps of all ranks. A step is optimizer.accumulation batches, one reduction of gradients, and
/// one update.
class TrainingStep {
 public:
  /// Keeps references. `events` provide the requests to stop and to save.
  TrainingStep(RunContext& run, TrainingListener& events);

  /// Takes step `step` (0, 1, …). Results stay where they were computed until `read_back`: the host then waits for a
  /// GPU, and gets those of all steps since it last did, in their order. All ranks call it alike. Throws
  /// coordinator::RunError where training has diverged, DataError where a rank could not open a group.
  std::vector<StepResult> take(int64_t step, bool read_back);
  /// Restricts all further steps to the parameters of the head.
  void train_head_only();

  StepMonitor& monitor() { return monitor_; }

 private:
  void begin(int64_t step);
  Batch next_batch(int64_t step, int64_t part);
  std::vector<torch::Tensor> forward(const Batch& batch);
  void backward(const torch::Tensor& loss);
  /// Starts the reductions of gradients and of `totals`, the numbers of all ranks; null with one rank.
  std::unique_ptr<comm::Work> reduce(torch::Tensor& totals);
  /// Updates the weights, and returns the gradient's norm before clipping.
  torch::Tensor update(int64_t step);
  void finish(const torch::Tensor& totals, const torch::Tensor& norm, comm::Work* reduction);
  /// Copies the results of all unread steps to the host.
  std::vector<StepResult> read_results();

  /// Makes a reducer for the gradients of these parameters.
  void reduce_parameters(const NamedTensors& parameters);
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
