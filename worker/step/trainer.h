#pragma once

#include <cstdint>
#include <vector>

#include "worker/step/events.h"
#include "worker/step/run_checkpoints.h"
#include "worker/step/run_context.h"
#include "worker/step/training_step.h"

namespace foretime::worker {

/// Makes the events of the steps of a run, with a report where one is due. The clock starts with it.
class StepReports {
 public:
  using Clock = StepMonitor::Clock;

  explicit StepReports(RunContext& run) : run_(run) {}

  /// Of the steps that are done. All ranks call it; the report holds values of all ranks.
  StepEvent event(const StepResult& result, TrainingStep& training);
  /// Time that does not count as training.
  void exclude(Clock::duration time) { reported_ += time; }
  /// trainer.metric at an evaluation, for the reports that follow.
  void set_metric(double value) { metric_ = value; }

 private:
  RunContext& run_;
  StepTimer timer_;
  Clock::time_point started_ = Clock::now(), reported_ = started_;
  double candidates_ = 0;  // trained on by all ranks since the last report
  std::optional<double> metric_;
};

/// Writes a run's events to its directory: metrics.jsonl, rankings.csv and the log. On rank 0.
class RunRecorder final : public TrainingListener {
 public:
  /// Keeps the reference.
  explicit RunRecorder(RunContext& run) : run_(run) {}
  void on_step(const StepEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  RunContext& run_;
  int straggler_ = -1;     // the rank that was last logged as one
  std::string slow_link_;  // the host whose link was
  static constexpr int64_t kWaitedSteps = 20;
  std::string waited_for_;    // whom all others waited for in the last report; logged after so many steps in a row
  int64_t waited_steps_ = 0;  // since then
};

/// Of `available` threads, those that pay in the steps of a rank. Steps of little work are slower on more of them:
/// threads wait for each other at every operation, and one of them for the core that the loader's thread is on.
int threads_of_a_step(const sharding::ShardPlan& plan, int rank, int available);

/// What a training needs beside its settings. Pointers must outlive the trainer.
struct TrainerOptions {
  std::vector<TrainingListener*> listeners = {};
  Profiler* profiler = nullptr;  // records spans, where there is one
  /// Equal on all ranks: a first evaluation without trainer.metric is a configs::SettingsError, since somebody waits
  /// for that metric. One of the test set is there at the end only, and chooses nothing.
  bool metric_required = false;
};

struct TrainingOutcome {
  int64_t steps = 0;  // done in all, with those before a resume
  bool preempted = false;
  std::string stopped_by = {};  // where it was pre-empted
  Evaluation final_evaluation;  // of the best model where one was kept, else of the last
  double train_mean_runtime = 0;
};

/// Trains one model on this rank's part of the data; every rank of `comm` makes the same calls, in this order.
class Trainer {
 public:
  Trainer(const configs::Settings& settings, comm::Communicator& comm, spdlog::logger& log,
          const TrainerOptions& options = {});

  /// Reads headers, plans, loads this rank's groups, builds the model, resumes where there is something to resume.
  void set_up();
  /// Steps until the end, an early stop or a pre-emption, with evaluations and checkpoints on the way.
  TrainingOutcome run();
  /// The constant baseline on the same evaluation sets.
  Evaluation evaluate_constant() const { return evaluation_.evaluate_constant(); }

 private:
  /// Whether somebody needs the results of all steps up to `step` now. On a GPU the host waits for them.
  bool results_are_due(int64_t step) const;
  bool evaluate(int64_t step, StepReports& reports);
  Evaluation evaluate_final(int64_t step);
  void require_metric(const Evaluation& evaluation) const;

  RunContext run_;
  TrainingEvents events_;
  RunRecorder recorder_;
  ModelEvaluation evaluation_;
  RunCheckpoints checkpoints_;
  bool metric_required_;
  bool evaluated_ = false;  // at least once since this process began
};

}  // namespace foretime::worker
