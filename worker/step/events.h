#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <vector>

#include "worker/evaluation/evaluator.h"
#include "worker/profile/step_monitor.h"

namespace foretime::worker {

/// Reports the training of all ranks since the last report. Reports are made every trainer.log_every steps.
struct TrainingReport {
  double learning_rate = 0;          // learning rate of the last step
  double gradient_norm = 0;          // ℓ2 norm of the last step's gradient before clipping
  double candidates_per_second = 0;  // candidates trained on by all ranks, without the time of evaluations
  double seconds = 0;                // time since this process began to train
  StepReport ranks;                  // work and waits of the ranks
  std::optional<double> metric;      // trainer.metric at the last evaluation of this process; nullopt: none yet
};

/// Reports a finished optimiser step. Values are totals over all ranks.
struct StepEvent {
  int64_t step = 0, total_steps = 0;     // number of finished steps, and of all steps of the run
  double loss = 0;                       // loss of the step's batches
  double seconds_per_step = -1;          // mean of this process, evaluations included; -1: not known yet
  std::optional<TrainingReport> report;  // set if `step` is a multiple of trainer.log_every, or the last step

  /// Returns the estimated seconds until the last step; -1 if not known yet.
  double eta_seconds() const { return seconds_per_step < 0 ? -1 : seconds_per_step * (total_steps - step); }
};

struct EvaluationEvent {
  int64_t step = 0;
  int64_t iteration = 0;  // 1, 2, …: number of evaluations of the run up to this one, also those before a resume
  const Evaluation& evaluation;  // on holdout and valid
};

struct CheckpointEvent {
  int64_t step = 0;
  std::filesystem::path folder;  // folder of the complete new checkpoint; older checkpoints still exist
};

struct EndEvent {
  int64_t step = 0;              // last step
  int64_t best_step = 0;         // step of the evaluated model; 0: the last model, as no evaluation had trainer.metric
  const Evaluation& evaluation;  // results of that model on all sets
};

/// Receives the events of a training. stop_requested() and checkpoint_requested() are called on every rank, all others
/// on rank 0. The training thread makes the calls and waits for their return.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;
  virtual void on_step(const StepEvent& /*event*/) {}
  virtual void on_evaluation(const EvaluationEvent& /*event*/) {}
  /// Reports that `candidates` candidates of an evaluation have been scored since the last call.
  virtual void on_scored(int64_t /*candidates*/) {}
  virtual void on_checkpoint(const CheckpointEvent& /*event*/) {}
  virtual void on_end(const EndEvent& /*event*/) {}
  /// Returns whether the run should stop. Called on every rank at every step; true on one rank stops all ranks after
  /// the step or, on a GPU, at most ten steps later.
  virtual bool stop_requested() { return false; }
  /// Returns whether a checkpoint should be written. Called on every rank at every step; after true on one rank, a
  /// checkpoint is written at the step at which stop_requested() would stop the run.
  virtual bool checkpoint_requested() { return false; }
};

/// Passes each event to all listeners, in the order in which they were added. A request of any listener counts.
class TrainingEvents final : public TrainingListener {
 public:
  /// Adds a listener, which must outlive this object.
  void add(TrainingListener* listener) { listeners_.push_back(listener); }
  void on_step(const StepEvent& event) override { notify(&TrainingListener::on_step, event); }
  void on_evaluation(const EvaluationEvent& event) override { notify(&TrainingListener::on_evaluation, event); }
  void on_scored(int64_t candidates) override { notify(&TrainingListener::on_scored, candidates); }
  void on_checkpoint(const CheckpointEvent& event) override { notify(&TrainingListener::on_checkpoint, event); }
  void on_end(const EndEvent& event) override { notify(&TrainingListener::on_end, event); }
  bool stop_requested() override {
    bool stop = false;
    for (auto* listener : listeners_) stop |= listener->stop_requested();
    return stop;
  }
  bool checkpoint_requested() override {
    bool save = false;
    for (auto* listener : listeners_) save |= listener->checkpoint_requested();
    return save;
  }

 private:
  template <class Event>
  void notify(void (TrainingListener::*call)(Event), std::type_identity_t<Event> event) {
    for (auto* listener : listeners_) (listener->*call)(event);
  }

  std::vector<TrainingListener*> listeners_;
};

/// Measures the mean time of a step over the steps of this process. The first step is slower and does not count.
class StepTimer {
 public:
  /// Returns the mean seconds of a step; -1 at the first call. Must be called after each step with rising `step`.
  double after(int64_t step) {
    const auto now = std::chrono::steady_clock::now();
    if (first_step_ < 0) {
      first_step_ = step;
      start_ = now;
    }
    if (step <= first_step_) return -1;
    return std::chrono::duration<double>(now - start_).count() / (step - first_step_);
  }

 private:
  std::chrono::steady_clock::time_point start_;
  int64_t first_step_ = -1;
};

}  // namespace foretime::worker
