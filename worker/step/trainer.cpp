#include "worker/step/trainer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "configs/load.h"
#include "worker/step/preemption.h"
#include "worker/step/training_step.h"

namespace foretime::worker {
namespace {

bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

bool metric_of_test(const configs::Settings& settings) { return settings.trainer.metric.starts_with("test/"); }

/// Steps of little work run on few threads, all else on all.
class StepThreads {
 public:
  StepThreads(const RunContext& run)
      : all_(torch::get_num_threads()), few_(threads_of_a_step(run.plan, run.comm.rank(), all_)) {
    if (few_ < all_) run.log.info("steps are small: {} of {} threads compute them", few_, all_);
  }
  StepTotals take(TrainingStep& training, int64_t step) const {
    torch::set_num_threads(few_);
    const auto totals = training.take(step);
    torch::set_num_threads(all_);
    return totals;
  }

 private:
  int all_, few_;
};

}  // namespace

int threads_of_a_step(const sharding::ShardPlan& plan, int rank, int available) {
  constexpr double kWorthAThread = 2e8;  // multiplications of a step; measured on 2 cores (residual GCN 2 x 32: 5e7)
  double cost = 0;
  for (const int64_t slot : plan.slots_of(rank)) cost += plan.slots[static_cast<size_t>(slot)].cost;
  const double step = cost / static_cast<double>(std::max<int64_t>(1, plan.batches_per_epoch));
  return static_cast<int>(std::clamp(step / kWorthAThread, 1.0, static_cast<double>(available)));
}

Trainer::Trainer(const configs::Settings& settings, comm::Communicator& comm, spdlog::logger& log,
                 const TrainerOptions& options)
    : run_(settings, comm, log, options.profiler),
      recorder_(run_),
      evaluation_(run_, events_),
      checkpoints_(run_, evaluation_, events_),
      metric_required_(options.metric_required) {
  events_.add(&recorder_);
  for (auto* listener : options.listeners) events_.add(listener);
}

void Trainer::set_up() {
  ProfileSpan span(run_.profiler, "read data");
  load_data(run_);
  span.next("build model");
  build_model(run_);
  span.next("fit transforms");
  fit_transforms(run_);
  span.next("resume");
  checkpoints_.resume();
}

TrainingOutcome Trainer::run() {
  const auto& settings = run_.settings;
  const int64_t total = run_.total_steps();
  PreemptionGuard preemption;
  TrainingEvents events = events_;
  events.add(&preemption);
  run_.model->train();
  TrainingStep training(run_, events);
  const StepThreads threads(run_);
  StepReports reports(run_);
  TrainingOutcome outcome;
  outcome.train_mean_runtime = run_.state.train_mean_runtime;

  int64_t step = run_.state.step;
  for (bool stopped = false; step < total && !stopped && !outcome.preempted;) {
    if (step >= run_.first_head_step) training.train_head_only();
    const auto totals = threads.take(training, step++);
    evaluation_.weights_changed();
    const auto event = reports.event(step, totals, training);
    if (run_.root()) events.on_step(event);
    if (is_due(step, settings.trainer.eval_every)) stopped = evaluate(step, reports);
    if (is_due(step, settings.checkpoint.every_steps)) checkpoints_.save(step);
    outcome.preempted = totals.stop_requests > 0;
  }
  checkpoints_.save(step);
  outcome.steps = step;
  if (outcome.preempted) return outcome;
  if (settings.trainer.eval_every == 0 || step % settings.trainer.eval_every != 0) evaluate(step, reports);
  outcome.final_evaluation = evaluate_final(step);
  return outcome;
}

/// Evaluates, and keeps the best model. True where training should stop early.
bool Trainer::evaluate(int64_t step, StepReports& reports) {
  const auto started = StepReports::Clock::now();
  const auto evaluation = evaluation_.evaluate({"holdout", "valid"});
  const auto& settings = run_.settings.trainer;
  const bool first = !std::exchange(evaluated_, true);
  if (settings.early_stop.patience > 0 || (metric_required_ && first && !metric_of_test(run_.settings)))
    require_metric(evaluation);
  if (run_.root()) {
    // The evaluation at the end of a run may come between two of the others.
    const int64_t every = settings.eval_every, iteration = every == 0 ? 1 : (step + every - 1) / every;
    events_.on_evaluation({step, iteration, evaluation});
  }
  bool stop = false;
  if (const auto found = evaluation.metrics.find(settings.metric); found != evaluation.metrics.end()) {
    reports.set_metric(found->second);
    if (run_.early_stop.observe(step, found->second) && run_.settings.checkpoint.keep_best) {
      // Marked first: pruning, which save does, must know the best.
      if (run_.root()) run_.directory->checkpoints().mark_best(step, settings.metric, found->second);
      checkpoints_.save(step);
    }
    stop = run_.early_stop.should_stop();
  }
  reports.exclude(StepReports::Clock::now() - started);
  return stop;
}

/// Evaluates the best model, or the last where none was kept, on all sets.
Evaluation Trainer::evaluate_final(int64_t step) {
  checkpoints_.restore_best(step);
  auto evaluation = evaluation_.evaluate({"holdout", "valid", "test"});
  if (metric_required_ && metric_of_test(run_.settings)) require_metric(evaluation);
  if (run_.root()) events_.on_end({step, run_.early_stop.best_step(), evaluation});
  return evaluation;
}

void Trainer::require_metric(const Evaluation& evaluation) const {
  const auto& name = run_.settings.trainer.metric;
  if (evaluation.metrics.contains(name)) return;
  std::string known;
  for (const auto& [metric, value] : evaluation.metrics) known += " " + metric;
  throw configs::SettingsError(
      fmt::format("trainer.metric: {} is not among this run's metrics:{}", name,
                  known.empty() ? " there is nothing to evaluate (data.holdout, data.valid)" : known));
}

}  // namespace foretime::worker
