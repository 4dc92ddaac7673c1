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

/// What a step gave, over all ranks. Their sums travel with the gradients, so that nobody waits for them alone.
struct StepResult {
  int64_t step = 0;  // that many are done
  double loss = 0;
  double candidates = 0;           // trained on
  double stop_requests = 0;        // ranks that were asked to stop
  double checkpoint_requests = 0;  // ranks that ask for a checkpoint
  double failed_stores = 0;        // ranks that could not open a group
  double gradient_norm = 0;        // before clipping
};

/// One optimiser step of all ranks: optimizer.accumulation batches, one reduction of gradients, one update.
class TrainingStep {
 public:
  /// Keeps references. `events` are asked whether to stop and whether to save.
  TrainingStep(RunContext& run, TrainingListener& events);

  /// Takes step `step` (0, 1, …). Results stay where they were computed until `read_back`: the host then waits for a
  /// GPU, and gets those of all steps since it last did, in their order. All ranks call it alike. Throws
  /// coordinator::RunError where training has diverged, DataError where a rank could not open a group.
  std::vector<StepResult> take(int64_t step, bool read_back);
  /// From now on the parameters of the head alone are trained.
  void train_head_only();

  StepMonitor& monitor() { return monitor_; }

 private:
  void begin(int64_t step);
  Batch next_batch(int64_t step, int64_t part);
  std::vector<torch::Tensor> forward(const Batch& batch);
  void backward(const torch::Tensor& loss);
  std::unique_ptr<comm::Work> reduce(torch::Tensor& totals);
  torch::Tensor update(int64_t step);
  void finish(const torch::Tensor& totals, const torch::Tensor& norm, comm::Work* reduction);
  std::vector<StepResult> read_results();

  void reduce_parameters(const NamedTensors& parameters);
  void average_running_statistics();

  RunContext& run_;
  TrainingListener& events_;
  Sampler sampler_;
  BatchLoader loader_;
  std::unique_ptr<comm::GradientReducer> reducer_;
  StepMonitor monitor_;
  StepResult own_;          // of this rank, in the step under way, without what is on the device:
  torch::Tensor own_loss_;  // [1] float64
  struct Unread {
    StepResult known;       // beforehand
    torch::Tensor numbers;  // float64 on the device: loss and norm; of several ranks the sums of all numbers, and norm
  };
  std::vector<Unread> unread_;                     // since the last read-back
  std::vector<torch::Tensor> running_statistics_;  // buffers that a step changes (models/layers/layers.h)
  bool head_only_ = false;
};

}  // namespace foretime::worker
