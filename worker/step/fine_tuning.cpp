#include "worker/step/fine_tuning.h"

#include <cmath>
#include <utility>

#include "base/counter_random.h"
#include "comm/backends/factory.h"
#include "models/layers/layers.h"
#include "sharding/dataset_index.h"
#include "worker/batches/batch.h"
#include "worker/batches/sampler.h"
#include "worker/evaluation/scoring.h"
#include "worker/state/optimizer.h"

namespace foretime::worker {
namespace {

/// Batches of one TuningData, and the model's loss on them.
class BatchSource {
 public:
  BatchSource(const TrainedModel& trained, const TuningData& data)
      : model_(*trained.model),
        data_(data),
        sampler_(data.plan(), data.settings().sampler, data.settings().trainer.seed),
        forward_(model_, torch::kCPU),
        loader_(sampler_, data.store(), trained.state.targets, forward_, LossForm::of(data.settings()), /*rank=*/0) {}

  torch::Tensor loss(int64_t step, bool more) {
    const auto batch = loader_.get(step, more);
    return mean_loss(data_.settings().loss, forward_.scores(model_, batch, data_.store()), batch);
  }

 private:
  models::CostModel& model_;
  const TuningData& data_;
  Sampler sampler_;
  WholeGraphs forward_;
  BatchLoader loader_;
};

}  // namespace

configs::Settings tuning_settings(const configs::Settings& trained) {
  auto settings = trained;
  auto& data = settings.data;
  data.root = configs::DataSettings().root;
  data.train = data.valid = data.test = {};
  data.eval_indices.clear();
  data.max_eval_candidates = 0;
  data.train_fraction = 1.0;
  settings.sampler.samples_per_group = 0;
  settings.sampler.max_segment_nodes = 0;
  settings.segments = {};
  settings.shard = {};
  settings.averaging = {};
  settings.optimizer.accumulation = 1;
  settings.trainer.cross_fitting = false;
  settings.trainer.tie_threshold_candidates = 0;
  return settings;
}

TuningData::TuningData(const TrainedModel& trained, const configs::Settings& settings) : settings_(settings) {
  dataset_ = sharding::make_dataset_index(settings_, trained.state.schema.feature_count);
  sharding::check_representation(dataset_, settings_.data);
  check_inputs(trained);
  divide(std::exchange(dataset_, {}));
  plan_ = sharding::make_shard_plan(dataset_, settings_, /*ranks=*/1);
  const auto entries = plan_.entries_of(0);
  sharding::verify_files(dataset_, entries, sharding::allowed_roots_check(settings_.data));
  store_ = std::make_unique<GroupStore>(settings_, dataset_, entries, EvalIndices());
  store_->prepare_plans(trained.model->plan_request());
  store_->read_ahead(entries);
}

void TuningData::check_inputs(const TrainedModel& trained) const {
  const auto& schema = trained.state.schema;
  for (const auto& entry : dataset_.entries) {
    const auto& header = entry.header;
    if (header.feature_count != schema.feature_count)
      throw coordinator::RunError("{}: {} node features, the model was trained on {}", header.file.string(),
                                  header.feature_count, schema.feature_count);
    if (header.node_type_count > schema.node_type_count)
      throw coordinator::RunError("{}: node types up to {}, the model knows those below {}", header.file.string(),
                                  header.node_type_count - 1, schema.node_type_count);
  }
}

void TuningData::divide(const sharding::DatasetIndex& listed) {
  auto without = settings_;
  without.data.holdout = 0;
  for (const auto& entry : listed.entries) {
    const auto summary = data::load_summary(entry.header);
    auto labels = labels_of(entry.header, summary);
    const auto configurations = summary.configurations.span();
    auto all = labels;
    divide_candidates(all, sharding::Role::train, without, {}, configurations);  // throws without labels
    try {
      divide_candidates(labels, sharding::Role::train, settings_, {}, configurations);
    } catch (const DataError&) {
      skipped_groups_.push_back(entry.header.name);  // no other reason is left
      continue;
    }
    training_candidates_ += std::ssize(labels.train);
    heldout_candidates_ += std::ssize(labels.evaluated);
    dataset_.entries.push_back(entry);
  }
  if (dataset_.entries.empty()) {
    const auto& first = listed.entries.front().header;
    throw DataError(
        "{}: all {} candidates would be held out{}, expected some to learn from: "
        "measure more, or hold out less than {}",
        first.name, first.candidates, skipped_groups_.size() > 1 ? ", and those of all other groups" : "",
        settings_.data.holdout);
  }
}

Evaluation TuningData::evaluate(const TrainedModel& trained) const {
  const auto alone = comm::make_single_communicator();
  return evaluate_model(
      trained.model,
      {.settings = settings_, .targets = trained.state.targets, .max_states = settings_.trainer.eval_states},
      {"holdout"}, {dataset_, plan_, *store_, *alone});
}

void fine_tune(const TrainedModel& trained, const TuningData& fresh, const TuningData* replay, const FineTuning& how) {
  auto settings = fresh.settings().optimizer;
  settings.learning_rate = how.learning_rate;
  settings.schedule = configs::Schedule::cosine;
  settings.final_ratio = 0.0;
  settings.warmup_steps = how.steps / 10;
  NamedTensors parameters;
  for (const auto& item : trained.model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  std::vector<torch::Tensor> before;
  for (const auto& [name, parameter] : parameters) before.push_back(parameter.detach().clone());
  Adam optimizer(parameters, settings);
  BatchSource fresh_batches(trained, fresh);
  std::unique_ptr<BatchSource> replay_batches;
  if (replay != nullptr) replay_batches = std::make_unique<BatchSource>(trained, *replay);
  StepTimer timer;

  trained.model->train();
  trained.model->freeze_statistics(true);  // few candidates would spoil the running ones of batch normalisation
  for (int64_t step = 0; step < how.steps; ++step) {
    const bool more = step + 1 < how.steps;
    torch::manual_seed(random_bits({fresh.settings().trainer.seed, random_stream::tuning_dropout, step}));
    optimizer.zero_grad();
    auto loss = fresh_batches.loss(step, more);
    const double fresh_loss = loss.item<double>();
    if (replay_batches) loss = loss + how.replay_weight * replay_batches->loss(step, more);
    loss.backward();
    const double norm = clip_gradients(parameters, settings);
    if (!std::isfinite(fresh_loss) || !std::isfinite(norm))
      throw coordinator::RunError(
          "step {}: loss {} and gradient norm {}: fine-tuning has diverged; try a lower learning rate", step + 1,
          fresh_loss, norm);
    optimizer.step(learning_rate_at(settings, step, how.steps));
    if (how.listener != nullptr) how.listener->on_step({step + 1, how.steps, fresh_loss, timer.after(step + 1), {}});
  }
  optimizer.zero_grad();
  trained.model->eval();
  if (how.interpolation_weight == 1.0) return;
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto& parameter = parameters[i].second;
    parameter.copy_(torch::lerp(before[i], parameter, how.interpolation_weight));
  }
}

}  // namespace foretime::worker
