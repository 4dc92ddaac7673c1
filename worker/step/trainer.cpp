#include "worker/step/trainer.h"

#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counter_random.h"
#include "comm/agree.h"
#include "configs/load.h"
#include "models/autocast.h"
#include "worker/evaluation/segment_evaluation.h"
#include "worker/step/batch_loader.h"
#include "worker/step/preemption.h"
#include "worker/step/profile_report.h"
#include "worker/store/cross_fitting.h"

namespace foretime::worker {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

torch::Device choose_device(const std::string& wanted, const comm::Communicator& comm) {
  if (wanted == "cpu") return torch::kCPU;
  if (comm.device().is_cuda()) return comm.device();
  if (torch::cuda::is_available()) {
    return torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(comm.local_rank() %
                                                                       static_cast<int>(torch::cuda::device_count())));
  }
  if (wanted == "cuda") {
    throw comm::CommError(
        "trainer.device: cuda, but LibTorch finds no GPU; set trainer.device=cpu, or see `foretime doctor`");
  }
  return torch::kCPU;
}

}  // namespace

Trainer::Trainer(const configs::Settings& settings, comm::Communicator& comm, spdlog::logger& log,
                 ProgressSink progress, TrainerEvents events)
    : settings_(settings),
      comm_(comm),
      log_(log),
      progress_(std::move(progress)),
      events_(std::move(events)),
      device_(choose_device(settings.trainer.device, comm)),
      early_stop_(settings.trainer.metric_goal == "maximize", settings.trainer.early_stop.patience,
                  settings.trainer.early_stop.min_delta) {}

int64_t Trainer::total_steps() const {
  int64_t steps = settings_.trainer.steps;
  if (settings_.trainer.epochs > 0) {
    const int64_t batches = settings_.trainer.epochs * plan_.batches_per_epoch;
    steps = std::min(steps, (batches + settings_.optimizer.accumulation - 1) / settings_.optimizer.accumulation);
  }
  return steps;
}

int64_t Trainer::first_head_step() const { return total_steps() - settings_.segments.finetune_steps; }

double Trainer::train_step(int64_t step, BatchLoader& loader, const PreemptionGuard& preemption) {
  const int64_t accumulation = settings_.optimizer.accumulation;
  monitor_.begin_step();
  // Dropout's generator is set anew for each step and rank, so that no generator's state need be saved.
  torch::manual_seed(random_bits({settings_.trainer.seed, random_stream::dropout, static_cast<uint64_t>(step),
                                  static_cast<uint64_t>(comm_.rank())}));
  // Loss, candidates, ranks that were asked to stop, ranks that could not open a group.
  auto totals = torch::zeros({4}, torch::kDouble);
  optimizer_->zero_grad();
  for (int64_t part = 0; part < accumulation; ++part) {
    const int64_t number = step * accumulation + part;
    ProfileSpan span(profiler_, "loader");
    const auto batch = loader.get(number, number + 1 < total_steps() * accumulation);
    if (part + 1 == accumulation) reducer_->prepare();
    if (batch.candidates == 0) continue;
    monitor_.working_on(batch.largest_group);
    span.next("forward");
    std::vector<torch::Tensor> scores;  // of each member of the model
    {
      const models::Autocast precision(device_, settings_.trainer.precision == "bfloat16");
      if (!segments_) {
        scores = model_->member_scores(batch.plan);
      } else {
        scores = {head_only_ ? segments_->score_for_head(*model_, batch.graphs, *store_)
                             : segments_->score(*model_, batch.plan, batch.graphs)};
      }
    }
    torch::Tensor loss;
    for (size_t member = 0; member < scores.size(); ++member) {
      const auto own = member_loss(settings_.loss, scores[member], static_cast<int64_t>(member), batch);
      loss = loss.defined() ? loss + own : own;
    }
    loss = loss / static_cast<double>(static_cast<int64_t>(scores.size()) * accumulation);
    span.next("backward");
    loss.backward();  // buckets are reduced as they fill
    totals[0] += loss.item<double>();
    totals[1] += batch.candidates;
  }
  ProfileSpan span(profiler_, "reduce");
  reducer_->flush();
  // Travels with the gradients, so that nobody waits for it alone.
  const bool asked = comm_.rank() == 0 && events_.stop_requested && events_.stop_requested();
  totals[2] = asked || preemption.requested() ? 1.0 : 0.0;
  totals[3] = store_->failed() ? 1.0 : 0.0;
  totals = totals.to(comm_.device());
  const auto totals_work = comm_.all_reduce(totals);
  reducer_->finish();
  const auto timing = reducer_->timing();
  record_reduction(profiler_, timing);
  monitor_.waited(timing.exposed_seconds);
  span.next("step");
  for (const auto& name : reducer_->take_unused()) log_.info("parameter {} had no gradient; it counts as zeros", name);
  gradient_norm_ = clip_gradients(optimizer_->parameters(), settings_.optimizer);
  optimizer_->step(learning_rate_at(settings_.optimizer, step, total_steps()));
  if (segments_) segments_->end_step(step + 1, comm_);
  average_running_statistics();
  if (average_) average_->update(step + 1);  // with the statistics that all ranks have agreed on
  levels_found_ = false;

  span.next("totals");
  const auto waiting = Clock::now();
  totals_work->wait();
  monitor_.waited(seconds_since(waiting));
  span.end();
  monitor_.end_step();
  totals = totals.to(torch::kCPU);
  if (totals[3].item<double>() > 0) comm::run_together(comm_, [&] { store_->check(); });
  trained_candidates_ += totals[1].item<int64_t>();
  preempted_ = totals[2].item<double>() > 0;
  const double loss = totals[0].item<double>();
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm_)) {
    throw coordinator::RunError(
        fmt::format("step {}: loss {} and gradient norm {}: training has diverged; try a lower "
                    "optimizer.learning_rate, or a smaller optimizer.clip_norm",
                    step + 1, loss, gradient_norm_));
  }
  return loss;
}

/// After every step, so that all ranks evaluate, average and save one and the same model.
void Trainer::average_running_statistics() {
  if (running_statistics_.empty() || comm_.size() == 1) return;
  std::vector<torch::Tensor> flat;
  for (const auto& buffer : running_statistics_) flat.push_back(buffer.flatten());
  auto joined = torch::cat(flat).to(comm_.device());
  comm_.all_reduce(joined)->wait();
  joined = joined.to(device_) / comm_.size();
  int64_t at = 0;
  for (auto& buffer : running_statistics_) {
    buffer.copy_(joined.narrow(0, at, buffer.numel()).view_as(buffer));
    at += buffer.numel();
  }
}

void Trainer::find_levels() {
  if (settings_.trainer.score_levels == 0 || std::exchange(levels_found_, true)) return;
  const AveragedWeights averaged(*model_, average_.get());
  std::vector<Scorer> scorers;
  for (const auto& model : settings_.trainer.member_folds ? model_->members() : std::vector{model_})
    scorers.push_back(scorer_for(model, settings_, state_.targets, {}, device_, settings_.trainer.eval_states));
  state_.levels = fit_levels(scorers, settings_.trainer.score_levels, dataset_, plan_, *store_, comm_);
}

Evaluation Trainer::run_evaluation(const std::vector<std::string>& sets) {
  const ProfileSpan span(profiler_, "evaluation");
  find_levels();
  const AveragedWeights averaged(*model_, average_.get());
  return evaluate_model(model_, settings_, state_.targets, state_.levels, device_, settings_.trainer.eval_states,
                        comm_.rank() == 0 ? events_.on_scored : nullptr, sets, dataset_, plan_, *store_, comm_);
}

Evaluation Trainer::evaluate_constant() {
  return evaluate(constant_scorer(state_.train_mean_runtime), {"holdout", "valid", "test"}, dataset_, plan_, *store_,
                  comm_);
}

void Trainer::save(int64_t step) {
  if (saved_step_ == step) return;
  const ProfileSpan span(profiler_, "checkpoint");
  saved_step_ = step;
  state_.step = step;
  find_levels();
  const auto history = segments_ ? segments_->checkpoint_file(comm_) : std::string();
  comm::run_together(comm_, [&] {
    if (comm_.rank() != 0) return;
    auto files = checkpoint_files(state_, *model_, *optimizer_, early_stop_);
    if (!history.empty()) files[kHistoryFile] = history;
    if (average_ && average_->count() > 0) files[kAverageFile] = average_->checkpoint_file();
    directory_->checkpoints().commit(step, files);
    if (events_.on_checkpoint) events_.on_checkpoint(step, directory_->checkpoints().folder(step));
    directory_->checkpoints().prune(settings_.checkpoint.keep_last, settings_.checkpoint.keep_best);
  });
}

void Trainer::require_metric(const Evaluation& evaluation) const {
  const auto& name = settings_.trainer.metric;
  if (evaluation.metrics.contains(name)) return;
  std::string known;
  for (const auto& [metric, value] : evaluation.metrics) known += " " + metric;
  throw configs::SettingsError(
      fmt::format("trainer.metric: {} is not among this run's metrics:{}", name,
                  known.empty() ? " there is nothing to evaluate (data.holdout, data.valid)" : known));
}

bool Trainer::metric_of_test() const { return settings_.trainer.metric.starts_with("test/"); }

bool Trainer::finish_evaluation(int64_t step, const Evaluation& evaluation) {
  const bool first = !std::exchange(evaluated_, true);
  if (settings_.trainer.early_stop.patience > 0 || (events_.metric_required && first && !metric_of_test()))
    require_metric(evaluation);
  if (comm_.rank() == 0) {
    nlohmann::json line = {{"kind", "eval"}, {"step", step}};
    std::string text;
    for (const auto& [name, value] : evaluation.metrics) {
      line[name] = value;
      if (name.ends_with("/kendall_tau") || name.ends_with("/mae")) text += fmt::format("  {} {:.4g}", name, value);
    }
    directory_->append_metrics(line);
    log_.info("step {}{}", step, text);
    if (events_.on_evaluation) {
      const int64_t every = settings_.trainer.eval_every;
      // The one at the end of a run may come between two of the others.
      const int64_t iteration = every == 0 ? 1 : (step + every - 1) / every;
      events_.on_evaluation(step, iteration, evaluation.metrics);
    }
  }
  const auto& name = settings_.trainer.metric;
  const auto found = evaluation.metrics.find(name);
  if (found == evaluation.metrics.end()) return false;
  metric_ = found->second;
  if (early_stop_.observe(step, found->second) && settings_.checkpoint.keep_best) {
    // Marked first: pruning, which save does, must know the best.
    if (comm_.rank() == 0) directory_->checkpoints().mark_best(step, name, found->second);
    save(step);
  }
  return early_stop_.should_stop();
}

void Trainer::report_step(int64_t step, double loss) {
  const ProfileSpan span(profiler_, "report");
  const auto ranks = monitor_.report(comm_);
  if (comm_.rank() == 0) {
    const Progress now{step,
                       total_steps(),
                       loss,
                       learning_rate_at(settings_.optimizer, step - 1, total_steps()),
                       static_cast<double>(trained_candidates_) / seconds_since(reported_),
                       gradient_norm_,
                       ranks,
                       metric_};
    nlohmann::json line = {{"kind", "train"},
                           {"step", step},
                           {"loss", loss},
                           {"learning_rate", now.learning_rate},
                           {"gradient_norm", now.gradient_norm},
                           {"candidates_per_second", now.candidates_per_second},
                           {"seconds", seconds_since(started_)}};
    line.update(to_json(ranks));
    directory_->append_metrics(line);
    progress_(now);
    if (is_straggling(ranks) && std::exchange(straggler_, ranks.straggler_rank) != ranks.straggler_rank)
      log_.info("{}", describe_straggler(ranks));
  }
  trained_candidates_ = 0;
  reported_ = Clock::now();
}

TrainingOutcome Trainer::run() {
  const int64_t total = total_steps();
  const PreemptionGuard preemption;
  const Sampler sampler(plan_, settings_.sampler, settings_.trainer.seed);
  BatchLoader loader(sampler, *store_, state_.targets, model_->plan_request(), comm_.rank(), device_, profiler_);
  if (segments_) loader.cut_graphs(segments_.get(), first_head_step() * settings_.optimizer.accumulation);
  TrainingOutcome outcome;
  outcome.train_mean_runtime = state_.train_mean_runtime;
  model_->train();
  const int all_threads = torch::get_num_threads(), step_threads = threads_of_a_step(plan_, comm_.rank(), all_threads);
  if (step_threads < all_threads)
    log_.info("steps are small: {} of {} threads compute them", step_threads, all_threads);
  started_ = reported_ = Clock::now();

  int64_t step = state_.step;
  for (bool stopped = false; step < total && !stopped && !preempted_;) {
    if (segments_ && !head_only_ && step >= first_head_step()) train_head_only();
    torch::set_num_threads(step_threads);
    const double loss = train_step(step, loader, preemption);
    torch::set_num_threads(all_threads);
    ++step;
    if (comm_.rank() == 0 && events_.on_progress) events_.on_progress(step, total, loss);
    if (step % settings_.trainer.log_every == 0 || step == total) report_step(step, loss);
    if (settings_.trainer.eval_every > 0 && step % settings_.trainer.eval_every == 0) {
      const auto evaluating = Clock::now();
      stopped = finish_evaluation(step, run_evaluation({"holdout", "valid"}));
      reported_ += Clock::now() - evaluating;
    }
    if (settings_.checkpoint.every_steps > 0 && step % settings_.checkpoint.every_steps == 0) save(step);
  }
  save(step);
  outcome.steps = step;
  outcome.preempted = preempted_;
  if (preempted_) return outcome;

  if (settings_.trainer.eval_every == 0 || step % settings_.trainer.eval_every != 0)
    finish_evaluation(step, run_evaluation({"holdout", "valid"}));
  restore_best(step);
  outcome.final_evaluation = run_evaluation({"holdout", "valid", "test"});
  if (events_.metric_required && metric_of_test()) require_metric(outcome.final_evaluation);
  if (comm_.rank() == 0) {
    nlohmann::json line = {{"kind", "final"}, {"step", step}, {"best_step", early_stop_.best_step()}};
    for (const auto& [name, value] : outcome.final_evaluation.metrics) line[name] = value;
    directory_->append_metrics(line);
    directory_->write("rankings.csv", rankings_csv(outcome.final_evaluation));
  }
  return outcome;
}

void Trainer::restore_best(int64_t step) {
  std::string best;
  comm::run_together(comm_, [&] {
    if (comm_.rank() != 0 || !settings_.checkpoint.keep_best) return;
    const auto best_step = directory_->checkpoints().best_step();
    if (best_step && *best_step != step) best = serialize(directory_->checkpoints().read(*best_step));
  });
  best = comm_.broadcast_bytes(best, 0);
  if (best.empty()) return;
  const auto checkpoint = parse_stored_checkpoint(best);
  restore_final_model(checkpoint, *model_);
  average_.reset();  // that of the last step, which is not the best
  levels_found_ = false;
  log_.info("final evaluation of the best model, of step {}", checkpoint.step);
}

}  // namespace foretime::worker
