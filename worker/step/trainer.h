#pragma once

#include <cstdint>
#include <vector>

#include "worker/step/events.h"
#include "worker/step/run_checkpoints.h"
#include "worker/step/run_context.h"
#include "worker/step/training_step.h"

namespace foretime::worker {

/// Makes the events of a run's steps, with a report if one is due.
class StepReports {
 public:
  using Clock = StepMonitor::Clock;

  explicit StepReports(RunContext& run) : run_(run) {}

  /// Returns the event of a finished step. All ranks call it for each step; the report holds values of all ranks.
  StepEvent event(const StepResult& result, TrainingStep& training);
  /// Excludes `time`, for example of an evaluation, from the next TrainingReport::candidates_per_second.
  void exclude(Clock::duration time) { reported_ += time; }
  /// Sets TrainingReport::metric of the next reports.
  void set_metric(double value) { metric_ = value; }

 private:
  RunContext& run_;
  StepTimer timer_;
  Clock::time_point started_ = Clock::now(), reported_ = started_;
  double candidates_ = 0;  // candidates that all ranks trained on since the last report
  std::optional<double> metric_;
};

/// Writes a run's reports and evaluations to metrics.jsonl, rankings.csv and the log of the run directory, on rank 0.
class RunRecorder final : public TrainingListener {
 public:
  /// Keeps the reference to `run`.
  explicit RunRecorder(RunContext& run) : run_(run) {}
  void on_step(const StepEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  RunContext& run_;
  int straggler_ = -1;     // rank that was last logged as straggler; -1: none
  std::string slow_link_;  // host whose link was last logged as slow
  static constexpr int64_t kWaitedSteps = 20;
  std::string waited_for_;    // host that all others waited for in the last report; logged after kWaitedSteps steps
  int64_t waited_steps_ = 0;  // number of steps in succession in which waited_for_ was waited for
};

/// Returns the number of threads, from 1 to `available`, for a rank's steps, by their planned cost. Small steps are
/// slower on more threads, which wait for each other at every operation.
int threads_of_a_step(const sharding::ShardPlan& plan, int rank, int available);

/// Holds options of a training that are no settings. Pointers must outlive the trainer.
struct TrainerOptions {
  std::vector<TrainingListener*> listeners = {};  // receive the events; not null
  Profiler* profiler = nullptr;                   // records spans; may be null
  /// If true, run() throws configs::SettingsError if the first evaluation lacks trainer.metric, or the final one if it
  /// is a metric of the test set, which is evaluated only at the end. Must be equal on all ranks.
  bool metric_required = false;
};

/// Holds the result of Trainer::run.
struct TrainingOutcome {
  int64_t steps = 0;              // number of finished steps, including those before a resume
  bool preempted = false;         // the run was stopped before the end
  std::string stopped_by = {};    // reason of the pre-emption, else ""
  Evaluation final_evaluation;    // empty if the training was preempted
  double train_mean_runtime = 0;  // see TrainingState
};

/// Trains one model on this rank's part of the data. Every rank of `comm` makes the same calls in the same order.
class Trainer {
 public:
  /// Keeps references to `comm` and `log`. Throws comm::CommError as choose_device does.
  Trainer(const configs::Settings& settings, comm::Communicator& comm, spdlog::logger& log,
          const TrainerOptions& options = {});

  /// Loads this rank's data, builds the model, and resumes as RunCheckpoints::resume does. Must be called first.
  void set_up();
  /// Runs the steps until the end, an early stop or a pre-emption, with evaluations and checkpoints; no final
  /// evaluation after a pre-emption. Throws coordinator::RunError if the training diverges.
  TrainingOutcome run();
  /// Evaluates the constant baseline on holdout, valid and test.
  Evaluation evaluate_constant() const { return evaluation_.evaluate_constant(); }

 private:
  /// Returns whether the results of all steps up to `step` must be read now, for which the host waits on a GPU.
  bool results_are_due(int64_t step) const;
  /// Evaluates holdout and valid, sends the evaluation event, and saves a checkpoint if the metric is a new best and
  /// checkpoint.keep_best is set. Returns whether to stop early. Throws configs::SettingsError if a required
  /// trainer.metric is missing.
  bool evaluate(int64_t step, StepReports& reports);
  /// Evaluates holdout, valid and test, and sends the end event. First loads the weights of the best checkpoint, if one
  /// is kept, into the model; if it is damaged, the model of `step`, the last one, is recorded as the best. Throws
  /// configs::SettingsError if a required trainer.metric is missing.
  Evaluation evaluate_final(int64_t step);
  /// Throws configs::SettingsError if an evaluation lacks trainer.metric.
  void require_metric(const Evaluation& evaluation) const;

  RunContext run_;
  TrainingEvents events_;
  RunRecorder recorder_;
  ModelEvaluation evaluation_;
  RunCheckpoints checkpoints_;
  bool metric_required_;
  bool evaluated_ = false;  // this process has evaluated at least once
};

}  // namespace foretime::worker
