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

/// What ranks trained since the last report (every trainer.log_every steps), and how.
struct TrainingReport {
  double learning_rate = 0;          // of the step
  double gradient_norm = 0;          // of the step, before clipping
  double candidates_per_second = 0;  // trained on; evaluations do not count
  double seconds = 0;                // since this process began to train
  StepReport ranks;                  // time in wait for other ranks, and the slowest one
  std::optional<double> metric;      // trainer.metric at the last evaluation
};

/// An optimiser step that is done. Values are those of all ranks together.
struct StepEvent {
  int64_t step = 0, total_steps = 0;
  double loss = 0;
  double seconds_per_step = -1;          // a mean, evaluations included; -1 while it is not known
  std::optional<TrainingReport> report;  // at every trainer.log_every-th step, and at the last one

  /// How long these steps still take, in seconds; -1 while it is not known.
  double eta_seconds() const {
    return seconds_per_step < 0 ? -1 : seconds_per_step * static_cast<double>(total_steps - step);
  }
};

struct EvaluationEvent {
  int64_t step = 0;
  int64_t iteration = 0;  // evaluations up to this step, those before a resume included
  const Evaluation& evaluation;
};

struct CheckpointEvent {
  int64_t step = 0;
  std::filesystem::path folder;  // holds a whole checkpoint; older ones are still there
};

struct EndEvent {
  int64_t step = 0, best_step = 0;
  const Evaluation& evaluation;  // of the final model, all sets
};

/// Follows a training: a progress bar, a log, an agent. All but stop_requested and checkpoint_requested are called on
/// rank 0 only, by the training thread, which waits for them.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;
  virtual void on_step(const StepEvent& /*event*/) {}
  virtual void on_evaluation(const EvaluationEvent& /*event*/) {}
  /// More candidates of an evaluation have been scored, which may take long.
  virtual void on_scored(int64_t /*candidates*/) {}
  virtual void on_checkpoint(const CheckpointEvent& /*event*/) {}
  virtual void on_end(const EndEvent& /*event*/) {}
  /// Asked on every rank at every step; true on one rank ends the run at the step's end, on all ranks.
  virtual bool stop_requested() { return false; }
  /// Asked on every rank at every step; true on one rank has a checkpoint written soon, on all ranks at the same step.
  virtual bool checkpoint_requested() { return false; }
};

/// Passes each event to all listeners, in the order in which they were added.
class TrainingEvents final : public TrainingListener {
 public:
  /// Keeps the pointer.
  void add(TrainingListener* listener) { listeners_.push_back(listener); }
  void on_step(const StepEvent& event) override { tell(&TrainingListener::on_step, event); }
  void on_evaluation(const EvaluationEvent& event) override { tell(&TrainingListener::on_evaluation, event); }
  void on_scored(int64_t candidates) override { tell(&TrainingListener::on_scored, candidates); }
  void on_checkpoint(const CheckpointEvent& event) override { tell(&TrainingListener::on_checkpoint, event); }
  void on_end(const EndEvent& event) override { tell(&TrainingListener::on_end, event); }
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
  void tell(void (TrainingListener::*call)(Event), std::type_identity_t<Event> event) {
    for (auto* listener : listeners_) (listener->*call)(event);
  }

  std::vector<TrainingListener*> listeners_;
};

/// Measures the mean time of a step from the steps of this process alone: a resumed run does not begin at step 0, and
/// the first step, which is slower than the rest, does not count.
class StepTimer {
 public:
  /// Seconds a step after step `step`, or -1 while nothing is known. Called with rising steps.
  double after(int64_t step) {
    const auto now = std::chrono::steady_clock::now();
    if (first_step_ < 0) {
      first_step_ = step;
      start_ = now;
    }
    if (step <= first_step_) return -1;
    return std::chrono::duration<double>(now - start_).count() / static_cast<double>(step - first_step_);
  }

 private:
  std::chrono::steady_clock::time_point start_;
  int64_t first_step_ = -1;
};

}  // namespace foretime::worker
