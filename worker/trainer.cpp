#include "worker/trainer.h"

#include <chrono>
#include <cmath>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "configs/load.h"
#include "coordinator/agree.h"
#include "coordinator/counter_random.h"
#include "models/losses.h"
#include "models/statistics.h"
#include "worker/batch_loader.h"
#include "worker/preemption.h"

namespace foretime::worker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kDropout = 31;  // what a random number is for

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

std::vector<comm::GradientReducer::Parameter> reducer_parameters(const NamedTensors& parameters) {
  std::vector<comm::GradientReducer::Parameter> list;
  for (const auto& [name, tensor] : parameters) list.push_back({name, tensor});
  return list;
}

NamedTensors trainable(const models::CostModel& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

}  // namespace

Trainer::Trainer(const configs::Settings& settings, comm::Communicator& comm, spdlog::logger& log,
                 ProgressSink progress)
    : settings_(settings),
      comm_(comm),
      log_(log),
      progress_(std::move(progress)),
      device_(choose_device(settings.trainer.device, comm)),
      early_stop_(settings.trainer.metric_goal == "maximize", settings.trainer.early_stop.patience,
                  settings.trainer.early_stop.min_delta) {}

void Trainer::set_up() {
  load_data();
  build_model();
  fit_transforms();
  resume();
}

void Trainer::load_data() {
  const bool root = comm_.rank() == 0;
  std::string listed;
  coordinator::run_together(comm_, [&] {
    if (!root) return;
    catalogue_ = coordinator::make_catalogue(settings_);
    if (catalogue_.with_role(coordinator::Role::train).empty()) throw data::DataError("data.train: names no groups");
    directory_ = std::make_unique<coordinator::RunDirectory>(settings_, catalogue_.fingerprint());
    directory_->write(
        "environment.json",
        coordinator::describe_environment(comm_.size(), torch::get_num_threads(), comm_.name(), device_.str()).dump(2) +
            "\n");
    listed = coordinator::serialize(catalogue_);
  });
  catalogue_ = coordinator::parse_catalogue(comm_.broadcast_bytes(listed, 0));
  plan_ = coordinator::make_shard_plan(catalogue_, settings_.sampler.groups_per_batch, comm_.size());
  coordinator::run_together(comm_, [&] {
    const auto entries = plan_.entries_of(comm_.rank());
    coordinator::verify_files(catalogue_, entries);
    store_ = std::make_unique<GroupStore>(settings_, catalogue_, entries, load_official_indices(settings_.data));
  });
  log_.info("{} training groups, {} lanes on {} ranks, {} batches an epoch, planned imbalance {:.1f} %",
            catalogue_.with_role(coordinator::Role::train).size(), plan_.lanes.size(), comm_.size(),
            plan_.batches_per_epoch, 100 * plan_.imbalance);
}

void Trainer::build_model() {
  auto types = torch::zeros({1}, torch::kLong);
  for (const auto& [entry, loaded] : store_->all())
    types[0] = std::max(types[0].item<int64_t>(), loaded.group.graphs.node_type_count);
  types = types.to(comm_.device());
  comm_.all_reduce(types, comm::ReduceOp::max)->wait();
  coordinator::run_together(comm_, [&] {
    auto& schema = state_.schema;
    schema.kind = coordinator::candidate_kind(settings_.data.format);
    schema.feature_count = catalogue_.entries.front().header.feature_count;
    schema.node_type_count = types.item<int64_t>();
    {
      // Every rank draws the same weights. Ranks that are threads share LibTorch's generator, so they draw in turn.
      static std::mutex drawing;
      const std::lock_guard lock(drawing);
      torch::manual_seed(settings_.trainer.seed);
      model_ = models::make_model(settings_.model, schema);
    }
    model_->to(device_);
    store_->prepare_topology(model_->plan_request());
  });
  state_.settings = settings_;
  state_.data_fingerprint = catalogue_.fingerprint();
  const auto parameters = trainable(*model_);
  optimizer_ = std::make_unique<Adam>(parameters, settings_.optimizer);
  reducer_ =
      std::make_unique<comm::GradientReducer>(comm_, reducer_parameters(parameters), settings_.comm.bucket_bytes);
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters) count += tensor.numel();
  log_.info("model {}: {} parameters in {} tensors, on {}", settings_.model.type, count, parameters.size(),
            device_.str());
}

void Trainer::fit_transforms() {
  // Each training group counts once, on the rank that evaluates it, wherever else its draws are made.
  models::StatisticsAccumulator inputs(state_.schema, settings_.model.features.log);
  models::TargetStatistics targets(models::TargetTransform::from(settings_.loss));
  auto runtime = torch::zeros({2}, torch::kDouble);  // sum, count
  double runtime_sum = 0;
  for (const int64_t entry : catalogue_.with_role(coordinator::Role::train)) {
    if (plan_.eval_rank[static_cast<size_t>(entry)] != comm_.rank()) continue;
    const auto& loaded = store_->get(entry);
    inputs.add(loaded.group);
    targets.add(loaded.group, loaded.train);
    for (const int64_t c : loaded.train) runtime_sum += loaded.group.runtimes[c];
    runtime[1] += static_cast<double>(loaded.train.size());
  }
  runtime[0] = runtime_sum;
  const auto reduce = [&](torch::Tensor tensor, comm::ReduceOp op) {
    auto on_device = tensor.to(comm_.device());
    comm_.all_reduce(on_device, op)->wait();
    tensor.copy_(on_device);
  };
  reduce(inputs.sums(), comm::ReduceOp::sum);
  reduce(inputs.minima(), comm::ReduceOp::min);
  reduce(inputs.maxima(), comm::ReduceOp::max);
  reduce(targets.sums(), comm::ReduceOp::sum);
  reduce(runtime, comm::ReduceOp::sum);
  model_->fit_transform(inputs.finish());
  state_.targets = settings_.loss.standardize_target ? targets.fit() : models::TargetTransform::from(settings_.loss);
  state_.train_mean_runtime = (runtime[0] / runtime[1]).item<double>();
}

void Trainer::resume() {
  const bool root = comm_.rank() == 0;
  std::string found;
  coordinator::run_together(comm_, [&] {
    if (!root) return;
    const auto& wanted = settings_.checkpoint.resume;
    const auto steps = directory_->checkpoints().steps();
    if (wanted == "never" && !steps.empty()) {
      throw configs::SettingsError(
          fmt::format("{}: holds checkpoints, and checkpoint.resume is never; name another run.directory, or set "
                      "run.overwrite=true",
                      directory_->path().string()));
    }
    if (wanted == "auto" && !steps.empty()) {
      found = serialize(directory_->checkpoints().read(steps.back()));
    } else if (wanted != "auto" && wanted != "never") {
      found = serialize(coordinator::read_checkpoint(wanted));
    }
    if (found.empty()) directory_->rewind_metrics(-1);
  });
  found = comm_.broadcast_bytes(found, 0);
  if (found.empty()) return;
  coordinator::run_together(comm_, [&] {
    const auto checkpoint = parse_stored_checkpoint(found);
    const auto stored = read_state(checkpoint);
    if (!(stored.schema == state_.schema)) {
      throw coordinator::RunError(
          fmt::format("{}: made for other data: {} node features and {} node types, expected {} and {}",
                      checkpoint.folder.string(), stored.schema.feature_count, stored.schema.node_type_count,
                      state_.schema.feature_count, state_.schema.node_type_count));
    }
    restore_model(checkpoint, *model_);
    restore_progress(checkpoint, *optimizer_, early_stop_);
    state_.step = stored.step;
    state_.targets = stored.targets;
    state_.train_mean_runtime = stored.train_mean_runtime;
    saved_step_ = stored.step;
    if (root) {
      directory_->rewind_metrics(stored.step);
      // A run that was killed may have noted a best step whose checkpoint it did not write.
      directory_->checkpoints().mark_best(early_stop_.best_step(), settings_.trainer.metric,
                                          early_stop_.best().value_or(0));
    }
    log_.info("continues at step {} from {}", stored.step, checkpoint.folder.string());
  });
}

int64_t Trainer::total_steps() const {
  int64_t steps = settings_.trainer.steps;
  if (settings_.trainer.epochs > 0) {
    const int64_t batches = settings_.trainer.epochs * plan_.batches_per_epoch;
    steps = std::min(steps, (batches + settings_.optimizer.accumulation - 1) / settings_.optimizer.accumulation);
  }
  return steps;
}

double Trainer::train_step(int64_t step, BatchLoader& loader, const PreemptionGuard& preemption) {
  const int64_t accumulation = settings_.optimizer.accumulation;
  // Dropout's generator is set anew for each step and rank, so that no generator's state need be saved.
  torch::manual_seed(coordinator::random_bits(
      {settings_.trainer.seed, kDropout, static_cast<uint64_t>(step), static_cast<uint64_t>(comm_.rank())}));
  auto totals = torch::zeros({3}, torch::kDouble);  // loss, candidates, ranks that were asked to stop
  optimizer_->zero_grad();
  for (int64_t part = 0; part < accumulation; ++part) {
    const int64_t number = step * accumulation + part;
    const auto batch = loader.get(number, number + 1 < total_steps() * accumulation);
    if (part + 1 == accumulation) reducer_->prepare();
    if (batch.candidates == 0) continue;
    const auto scores = model_->score(batch.plan);
    const auto loss =
        models::batch_loss(settings_.loss, scores, batch.targets, batch.plan.group_ptr, batch.weights) / accumulation;
    loss.backward();  // buckets are reduced as they fill
    totals[0] += loss.item<double>();
    totals[1] += batch.candidates;
  }
  reducer_->finish();
  for (const auto& name : reducer_->take_unused()) log_.info("parameter {} had no gradient; it counts as zeros", name);
  gradient_norm_ = clip_global_norm(optimizer_->parameters(), settings_.optimizer.clip_norm);
  optimizer_->step(learning_rate_at(settings_.optimizer, step, total_steps()));

  totals[2] = preemption.requested() ? 1.0 : 0.0;
  totals = totals.to(comm_.device());
  comm_.all_reduce(totals)->wait();
  totals = totals.to(torch::kCPU);
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

Evaluation Trainer::run_evaluation(const std::vector<std::string>& sets) {
  return evaluate(model_scorer(model_, state_.targets, settings_.loss, device_, settings_.trainer.eval_states), sets,
                  catalogue_, plan_, *store_, comm_);
}

Evaluation Trainer::evaluate_constant() {
  return evaluate(constant_scorer(state_.train_mean_runtime), {"holdout", "valid", "test"}, catalogue_, plan_, *store_,
                  comm_);
}

void Trainer::save(int64_t step) {
  if (saved_step_ == step) return;
  saved_step_ = step;
  state_.step = step;
  coordinator::run_together(comm_, [&] {
    if (comm_.rank() != 0) return;
    directory_->checkpoints().commit(step, checkpoint_files(state_, *model_, *optimizer_, early_stop_));
    directory_->checkpoints().prune(settings_.checkpoint.keep_last, settings_.checkpoint.keep_best);
  });
}

bool Trainer::finish_evaluation(int64_t step, const Evaluation& evaluation) {
  if (comm_.rank() == 0) {
    nlohmann::json line = {{"kind", "eval"}, {"step", step}};
    std::string text;
    for (const auto& [name, value] : evaluation.metrics) {
      line[name] = value;
      if (name.ends_with("/kendall_tau") || name.ends_with("/mae")) text += fmt::format("  {} {:.4g}", name, value);
    }
    directory_->append_metrics(line);
    log_.info("step {}{}", step, text);
  }
  const auto& name = settings_.trainer.metric;
  const auto found = evaluation.metrics.find(name);
  if (found == evaluation.metrics.end()) {
    if (settings_.trainer.early_stop.patience > 0) {
      std::string known;
      for (const auto& [metric, value] : evaluation.metrics) known += " " + metric;
      throw configs::SettingsError(fmt::format("trainer.metric: {} is not among this run's metrics:{}", name, known));
    }
    return false;
  }
  if (early_stop_.observe(step, found->second) && settings_.checkpoint.keep_best) {
    // Marked first: pruning, which save does, must know the best.
    if (comm_.rank() == 0) directory_->checkpoints().mark_best(step, name, found->second);
    save(step);
  }
  return early_stop_.should_stop();
}

TrainingOutcome Trainer::run() {
  const int64_t total = total_steps();
  const PreemptionGuard preemption;
  const Sampler sampler(plan_, settings_.sampler, settings_.trainer.seed);
  BatchLoader loader(sampler, *store_, state_.targets, model_->plan_request(), comm_.rank(), device_);
  TrainingOutcome outcome;
  outcome.train_mean_runtime = state_.train_mean_runtime;
  model_->train();
  auto reported = Clock::now();
  const auto started = reported;

  int64_t step = state_.step;
  for (bool stopped = false; step < total && !stopped && !preempted_;) {
    const double loss = train_step(step, loader, preemption);
    ++step;
    if (comm_.rank() == 0 && (step % settings_.trainer.log_every == 0 || step == total)) {
      const double seconds = seconds_since(reported);
      const Progress now{step,
                         total,
                         loss,
                         learning_rate_at(settings_.optimizer, step - 1, total),
                         static_cast<double>(trained_candidates_) / seconds,
                         gradient_norm_,
                         reducer_->timing().exposed_seconds};
      directory_->append_metrics({{"kind", "train"},
                                  {"step", step},
                                  {"loss", loss},
                                  {"learning_rate", now.learning_rate},
                                  {"gradient_norm", now.gradient_norm},
                                  {"candidates_per_second", now.candidates_per_second},
                                  {"exposed_seconds", now.exposed_seconds},
                                  {"seconds", seconds_since(started)}});
      progress_(now);
      trained_candidates_ = 0;
      reported = Clock::now();
    }
    if (settings_.trainer.eval_every > 0 && step % settings_.trainer.eval_every == 0) {
      const auto evaluating = Clock::now();
      stopped = finish_evaluation(step, run_evaluation({"holdout", "valid"}));
      reported += Clock::now() - evaluating;
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
  coordinator::run_together(comm_, [&] {
    if (comm_.rank() != 0 || !settings_.checkpoint.keep_best) return;
    const auto best_step = directory_->checkpoints().best_step();
    if (best_step && *best_step != step) best = serialize(directory_->checkpoints().read(*best_step));
  });
  best = comm_.broadcast_bytes(best, 0);
  if (best.empty()) return;
  const auto checkpoint = parse_stored_checkpoint(best);
  restore_model(checkpoint, *model_);
  log_.info("final evaluation of the best model, of step {}", checkpoint.step);
}

}  // namespace foretime::worker
