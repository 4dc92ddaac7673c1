#include <algorithm>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "comm/agree.h"
#include "configs/load.h"
#include "data/frontends/loops/featurizers.h"
#include "models/layers/normalization.h"
#include "models/statistics.h"
#include "sharding/confinement.h"
#include "worker/step/sampler.h"
#include "worker/step/trainer.h"
#include "worker/store/type_vectors.h"

/// What comes before the first step.
namespace foretime::worker {
namespace {

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

void Trainer::set_up() {
  ProfileSpan span(profiler_, "read data");
  load_data();
  span.next("build model");
  build_model();
  span.next("fit transforms");
  fit_transforms();
  span.next("resume");
  resume();
}

void Trainer::load_data() {
  const bool root = comm_.rank() == 0;
  std::string listed;
  comm::run_together(comm_, [&] {
    if (!root) return;
    dataset_ = sharding::make_dataset_index(settings_);
    sharding::check_representation(dataset_, settings_.data);
    if (dataset_.with_role(sharding::Role::train).empty()) throw DataError("data.train: names no groups");
    directory_ = std::make_unique<coordinator::RunDirectory>(settings_, dataset_.fingerprint());
    directory_->write(
        "environment.json",
        coordinator::describe_environment(comm_.size(), torch::get_num_threads(), comm_.name(), device_.str()).dump(2) +
            "\n");
    listed = sharding::serialize(dataset_);
  });
  dataset_ = sharding::parse_dataset_index(comm_.broadcast_bytes(listed, 0), data::make_featurizer(settings_.data));
  plan_ = sharding::make_shard_plan(dataset_, settings_, comm_.size());
  comm::run_together(comm_, [&] {
    const auto entries = plan_.entries_of(comm_.rank());
    sharding::verify_files(dataset_, entries, sharding::confinement(settings_.data));
    store_ = std::make_unique<GroupStore>(settings_, dataset_, entries, load_official_indices(settings_.data));
  });
  // An .npz has no summary, so the transforms wait until all are read.
  const auto is_npz = [](const sharding::IndexEntry& entry) { return entry.header.member < 0; };
  if (std::any_of(dataset_.entries.begin(), dataset_.entries.end(), is_npz)) read_ahead();
  log_.info("{} training groups, {} lanes on {} ranks, {} batches an epoch, planned imbalance {:.1f} %",
            dataset_.with_role(sharding::Role::train).size(), plan_.slots.size(), comm_.size(), plan_.batches_per_epoch,
            100 * plan_.imbalance);
}

void Trainer::read_ahead() {
  auto order = Sampler(plan_, settings_.sampler, settings_.trainer.seed).first_uses(0, comm_.rank());
  // What is evaluated only comes last.
  const std::set<int64_t> drawn(order.begin(), order.end());
  for (const int64_t entry : store_->entries()) {
    if (!drawn.contains(entry)) order.push_back(entry);
  }
  store_->read_ahead(order);
}

void Trainer::build_model() {
  int64_t types = 0;
  for (const auto& entry : dataset_.entries) types = std::max(types, entry.header.node_type_count);
  comm::run_together(comm_, [&] {
    auto& schema = state_.schema;
    schema.kind = sharding::candidate_kind(settings_.data.format);
    schema.feature_count = dataset_.entries.front().header.feature_count;
    schema.node_type_count = types;
    {
      // Every rank draws the same weights. Ranks that are threads share LibTorch's generator, so they draw in turn.
      static std::mutex drawing;
      const std::lock_guard lock(drawing);
      torch::manual_seed(settings_.trainer.seed);
      model_ = models::make_model(settings_.model, schema);
    }
    model_->to(device_);
    store_->prepare_plans(model_->plan_request());
    if (settings_.sampler.max_segment_nodes > 0)
      segments_ = std::make_unique<SegmentTraining>(settings_, dataset_, plan_, comm_.rank(), *model_, device_);
  });
  read_ahead();
  state_.settings = settings_;
  state_.data_fingerprint = dataset_.fingerprint();
  const auto parameters = trainable(*model_);
  optimizer_ = std::make_unique<Adam>(parameters, settings_.optimizer);
  average_ = make_weight_average(settings_.averaging, *model_, total_steps());
  make_reducer(parameters);
  for (const auto& buffer : model_->named_buffers()) {
    if (models::is_running_statistic(buffer.key())) running_statistics_.push_back(buffer.value());
  }
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters) count += tensor.numel();
  log_.info("model {}: {} parameters in {} tensors, on {}", settings_.model.type, count, parameters.size(),
            device_.str());
  say_what_is_shared();
}

int threads_of_a_step(const sharding::ShardPlan& plan, int rank, int available) {
  constexpr double kWorthAThread = 2e8;  // multiplications of a step; measured on 2 cores (residual GCN 2 x 32: 5e7)
  double cost = 0;
  for (const int64_t lane : plan.slots_of(rank)) cost += plan.slots[static_cast<size_t>(lane)].cost;
  const double step = cost / static_cast<double>(std::max<int64_t>(1, plan.batches_per_epoch));
  return static_cast<int>(std::clamp(step / kWorthAThread, 1.0, static_cast<double>(available)));
}

void Trainer::say_what_is_shared() const {
  if (settings_.data.format != "layout") return;
  const auto sharing = model_->plan_request().sharing;
  if (sharing == plans::Sharing::none && settings_.model.sharing != "none") {
    log_.warn("model.norm {} depends on all nodes of a candidate: every node of every candidate is computed for itself",
              settings_.model.norm);
  }
  if (sharing == plans::Sharing::states && settings_.model.dropout > 0)
    log_.info("nodes and candidates that share a state share its dropout (model.sharing)");
}

void Trainer::make_reducer(const NamedTensors& parameters) {
  using Wire = comm::GradientReducer::Wire;
  reducer_ = std::make_unique<comm::GradientReducer>(
      comm_, reducer_parameters(parameters), settings_.comm.bucket_bytes,
      settings_.comm.gradient_dtype == "bfloat16" ? Wire::bfloat16 : Wire::own_type);
}

void Trainer::train_head_only() {
  head_only_ = true;
  NamedTensors head;
  for (const auto& [name, tensor] : optimizer_->parameters()) {
    if (is_head_parameter(name)) {
      head.emplace_back(name, tensor);
    } else {
      torch::Tensor(tensor).requires_grad_(false);
    }
  }
  optimizer_->zero_grad();
  make_reducer(head);
  log_.info("the last {} steps train the head alone", settings_.segments.finetune_steps);
}

void Trainer::fit_transforms() {
  // Each training group counts once, on the rank that evaluates it, wherever else its draws are made.
  models::StatisticsAccumulator inputs(state_.schema, settings_.model.features.log);
  models::TargetStatistics targets(models::TargetTransform::from(settings_.loss));
  auto runtime = torch::zeros({2}, torch::kDouble);  // sum, count
  double runtime_sum = 0;
  comm::run_together(comm_, [&] {
    for (const int64_t entry : dataset_.with_role(sharding::Role::train)) {
      if (plan_.eval_rank(entry) != comm_.rank()) continue;
      const auto part = store_->training_part(entry);
      inputs.add(part.features, part.tile_features);
      targets.add(part.labels, part.train);
      for (const int64_t c : part.train) runtime_sum += part.labels.runtimes[c];
      runtime[1] += static_cast<double>(part.train.size());
    }
  });
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
  auto statistics = inputs.finish();
  statistics.type_vectors = make_type_vectors(settings_, dataset_, state_.schema.node_type_count, *store_, comm_);
  if (statistics.type_vectors.defined()) {
    log_.info("vectors of {} node types, {} columns, {}", statistics.type_vectors.size(0),
              statistics.type_vectors.size(1),
              settings_.data.node_type_vectors.empty()
                  ? fmt::format("from {} walks through the training programs", settings_.model.node_types.walks)
                  : "from " + settings_.data.node_type_vectors);
  }
  model_->fit_transform(statistics);
  state_.targets = settings_.loss.standardize_target ? targets.fit() : models::TargetTransform::from(settings_.loss);
  state_.train_mean_runtime = (runtime[0] / runtime[1]).item<double>();
}

/// A run that continues another one's checkpoint may never beat the best step before it: that one comes along.
void Trainer::carry_over_best(const std::filesystem::path& checkpoint) {
  const coordinator::CheckpointStore before(checkpoint.parent_path());
  const auto known = before.steps();
  const int64_t best = early_stop_.best_step();
  if (!settings_.checkpoint.keep_best || !early_stop_.best() ||
      std::find(known.begin(), known.end(), best) == known.end()) {
    return;
  }
  const auto own = directory_->checkpoints().steps();
  if (std::find(own.begin(), own.end(), best) == own.end())
    directory_->checkpoints().commit(best, before.read(best).files);
}

void Trainer::restore_average(const coordinator::StoredCheckpoint& checkpoint) {
  if (!average_) return;
  const auto stored = checkpoint.files.find(kAverageFile);
  if (stored != checkpoint.files.end() &&
      average_->restore(stored->second, (checkpoint.folder / kAverageFile).string()))
    return;
  log_.info("{}: holds no average of the weights ({}); it begins later", checkpoint.folder.string(),
            settings_.averaging.type);
}

void Trainer::resume() {
  const bool root = comm_.rank() == 0;
  std::string found;
  comm::run_together(comm_, [&] {
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
  comm::run_together(comm_, [&] {
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
    restore_average(checkpoint);
    const auto history = checkpoint.files.find(kHistoryFile);
    const bool kept = segments_ && history != checkpoint.files.end() &&
                      segments_->restore(history->second, (checkpoint.folder / kHistoryFile).string());
    if (segments_ && !kept && segments_->keeps_history())
      log_.info("{}: no history of these segments; it begins empty", checkpoint.folder.string());
    if (root) {
      directory_->rewind_metrics(stored.step);
      if (settings_.checkpoint.resume != "auto") carry_over_best(checkpoint.folder);
      // A run that was killed may have noted a best step whose checkpoint it did not write.
      directory_->checkpoints().mark_best(early_stop_.best_step(), settings_.trainer.metric,
                                          early_stop_.best().value_or(0));
    }
    log_.info("continues at step {} from {}", stored.step, checkpoint.folder.string());
  });
}

}  // namespace foretime::worker
