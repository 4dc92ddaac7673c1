#include "worker/step/trainer.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/no_copy.h"
#include "base/stop_signals.h"
#include "configs/load.h"
#include "models/gpu/launch.h"

namespace foretime::worker {
namespace {

double seconds_between(StepReports::Clock::time_point from, StepReports::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

bool metric_of_test(const configs::Settings& settings) { return settings.trainer.metric.starts_with("test/"); }

/// Steps of little work run on few threads, all else on all.
class StepThreads {
 public:
  StepThreads(const RunContext& run)
      : all_(torch::get_num_threads()), few_(threads_of_a_step(run.plan, run.comm.rank(), all_)) {
    if (few_ < all_) run.log.info("steps are small: using {} of {} threads", few_, all_);
  }
  std::vector<StepResult> take(TrainingStep& training, int64_t step, bool read_back) const {
    torch::set_num_threads(few_);
    auto results = training.take(step, read_back);
    torch::set_num_threads(all_);
    return results;
  }

 private:
  int all_, few_;
};

/// Turns the signals that ask a process to end into a request that the training loop sees at its next step boundary.
class PreemptionGuard final : public TrainingListener {
 public:
  bool stop_requested() override { return StopSignals::received() != 0; }
  /// Returns the reason of a stop as far as this rank knows it.
  static std::string cause() {
    const int signal = StopSignals::received();
    return signal != 0 ? fmt::format("signal {} ({})", signal, strsignal(signal))
                       : "a request of the agent, or a signal to another rank";
  }

 private:
  StopSignals signals_;
};

std::atomic<bool> was_continued = false;

/// Asks for a checkpoint every checkpoint.every_minutes, by rank 0's clock, and when a rank of several gets SIGCONT:
/// that is what mpirun sends first when it ends its ranks, a second before SIGTERM or, when it is signalled twice, a
/// second before SIGKILL. All ranks hear of it with the sums of the step.
class CheckpointClock final : public TrainingListener, NoCopy {
 public:
  CheckpointClock(const RunContext& run, const RunCheckpoints& checkpoints)
      : seconds_(run.root() ? 60 * run.settings.checkpoint.every_minutes : 0), checkpoints_(checkpoints) {
    was_continued = false;
    if (run.comm.size() > 1) std::signal(SIGCONT, [](int) { was_continued = true; });
  }
  ~CheckpointClock() override { std::signal(SIGCONT, SIG_DFL); }
  bool checkpoint_requested() override {
    return was_continued.exchange(false) || (seconds_ > 0 && checkpoints_.seconds_since_save() >= seconds_);
  }

 private:
  double seconds_;
  const RunCheckpoints& checkpoints_;
};

}  // namespace

int threads_of_a_step(const sharding::ShardPlan& plan, int rank, int available) {
  constexpr double kWorthAThread = 2e8;  // multiplications of a step; measured on 2 cores (residual GCN 2 x 32: 5e7)
  double cost = 0;
  for (const int64_t slot : plan.slots_of(rank)) cost += plan.slots[slot].cost;
  const double step = cost / std::max<int64_t>(1, plan.batches_per_epoch);
  return std::clamp<double>(step / kWorthAThread, 1.0, available);
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
  CheckpointClock clock(run_, checkpoints_);
  events.add(&preemption);
  events.add(&clock);
  run_.model->train();
  TrainingStep training(run_, events);
  const StepThreads threads(run_);
  StepReports reports(run_);
  TrainingOutcome outcome;
  outcome.train_mean_runtime = run_.state.train_mean_runtime;

  int64_t step = run_.state.step;
  for (bool stopped = false; step < total && !stopped && !outcome.preempted;) {
    bool save = false;
    if (step >= run_.first_head_step) training.train_head_only();
    const auto results = threads.take(training, step, results_are_due(step + 1));
    ++step;
    evaluation_.weights_changed();
    for (const auto& result : results) {
      const auto event = reports.event(result, training);
      if (run_.root()) events.on_step(event);
      outcome.preempted |= result.stop_requests > 0;
      save |= result.checkpoint_requests > 0;
    }
    if (is_due(step, settings.trainer.eval_every)) stopped = evaluate(step, reports);
    if (save || is_due(step, settings.checkpoint.every_steps)) checkpoints_.save(step);
  }
  checkpoints_.save(step);
  outcome.steps = step;
  if (outcome.preempted) outcome.stopped_by = PreemptionGuard::cause();
  if (outcome.preempted) return outcome;
  if (settings.trainer.eval_every == 0 || step % settings.trainer.eval_every != 0) evaluate(step, reports);
  outcome.final_evaluation = evaluate_final(step);
  return outcome;
}

bool Trainer::results_are_due(int64_t step) const {
  constexpr int64_t kUnread = 10;  // steps after which a request to stop is heard, and divergence seen, at the latest
  if (!gpu::uses_gpu_kernels(run_.device)) return true;
  const auto& settings = run_.settings;
  return is_due(step, kUnread) || is_due(step, settings.trainer.log_every) ||
         is_due(step, settings.trainer.eval_every) || is_due(step, settings.checkpoint.every_steps) ||
         step == run_.total_steps();
}

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

Evaluation Trainer::evaluate_final(int64_t step) {
  const bool intact = checkpoints_.restore_best(step);
  auto evaluation = evaluation_.evaluate({"holdout", "valid", "test"});
  if (metric_required_ && metric_of_test(run_.settings)) require_metric(evaluation);
  if (!run_.root()) return evaluation;
  if (!intact) {
    const auto& metric = run_.settings.trainer.metric;
    const auto found = evaluation.metrics.find(metric);
    run_.directory->checkpoints().mark_best(step, metric, found == evaluation.metrics.end() ? 0 : found->second);
  }
  const bool of_best = intact && run_.settings.checkpoint.keep_best;
  events_.on_end({step, of_best ? run_.early_stop.best_step() : step, evaluation});
  return evaluation;
}

void Trainer::require_metric(const Evaluation& evaluation) const {
  const auto& name = run_.settings.trainer.metric;
  if (evaluation.metrics.contains(name)) return;
  std::string known;
  for (const auto& [metric, value] : evaluation.metrics) known += " " + metric;
  throw configs::SettingsError("trainer.metric: {} is not among this run's metrics:{}", name,
                               known.empty() ? " there is nothing to evaluate (data.holdout, data.valid)" : known);
}

StepEvent StepReports::event(const StepResult& result, TrainingStep& training) {
  const int64_t step = result.step;
  candidates_ += result.candidates;
  const int64_t total = run_.total_steps();
  StepEvent event{
      .step = step, .total_steps = total, .loss = result.loss, .seconds_per_step = timer_.after(step), .report = {}};
  if (step % run_.settings.trainer.log_every != 0 && step != total) return event;
  const ProfileSpan span(run_.profiler, "report");
  auto& report = event.report.emplace();
  report.ranks = training.monitor().report(run_.comm);
  const auto now = Clock::now();
  report.learning_rate = learning_rate_at(run_.settings.optimizer, step - 1, total);
  report.gradient_norm = result.gradient_norm;
  report.candidates_per_second = candidates_ / seconds_between(reported_, now);
  report.seconds = seconds_between(started_, now);
  report.metric = metric_;
  candidates_ = 0;
  reported_ = now;
  return event;
}

void RunRecorder::on_step(const StepEvent& event) {
  if (!event.report) return;
  const auto& report = *event.report;
  nlohmann::json line = {{"kind", "train"},
                         {"step", event.step},
                         {"loss", event.loss},
                         {"learning_rate", report.learning_rate},
                         {"gradient_norm", report.gradient_norm},
                         {"candidates_per_second", report.candidates_per_second},
                         {"seconds", report.seconds}};
  line.update(to_json(report.ranks));
  run_.directory->append_metrics(line);
  if (is_straggling(report.ranks) &&
      std::exchange(straggler_, report.ranks.straggler_rank) != report.ranks.straggler_rank)
    run_.log.info("{}", describe_straggler(report.ranks));
  const std::string waited_for = is_waited_for(report.ranks) ? report.ranks.waited_for : "";
  if (std::exchange(waited_for_, waited_for) != waited_for) waited_steps_ = 0;
  const auto before = std::exchange(waited_steps_, waited_steps_ + report.ranks.steps);
  if (!waited_for.empty() && before < kWaitedSteps && waited_steps_ >= kWaitedSteps)
    run_.log.info("{}", describe_waited_for(report.ranks));
  if (has_slow_link(report.ranks) && std::exchange(slow_link_, report.ranks.link->host) != report.ranks.link->host)
    run_.log.info("{}", describe_slow_link(report.ranks));
}

void RunRecorder::on_evaluation(const EvaluationEvent& event) {
  nlohmann::json line = {{"kind", "eval"}, {"step", event.step}};
  std::string text;
  for (const auto& [name, value] : event.evaluation.metrics) {
    line[name] = value;
    if (name.ends_with("/kendall_tau") || name.ends_with("/mae")) text += fmt::format("  {} {:.4g}", name, value);
  }
  run_.directory->append_metrics(line);
  run_.log.info("evaluation at step {}:{}", event.step, text.empty() ? " no metrics" : text);
}

void RunRecorder::on_end(const EndEvent& event) {
  nlohmann::json line = {{"kind", "final"}, {"step", event.step}, {"best_step", event.best_step}};
  for (const auto& [name, value] : event.evaluation.metrics) line[name] = value;
  run_.directory->append_metrics(line);
  run_.directory->write("rankings.csv", rankings_csv(event.evaluation));
}

}  // namespace foretime::worker
