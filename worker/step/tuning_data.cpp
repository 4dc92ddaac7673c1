#include "worker/step/tuning_data.h"

#include <utility>

#include <fmt/format.h>

#include "comm/single.h"
#include "sharding/dataset_index.h"
#include "worker/evaluation/segment_evaluation.h"

namespace foretime::worker {

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
  dataset_ = sharding::make_dataset_index(settings_);
  sharding::check_representation(dataset_, settings_.data);
  check_inputs(trained);
  divide(std::exchange(dataset_, {}));
  plan_ = sharding::make_shard_plan(dataset_, settings_, /*ranks=*/1);
  const auto entries = plan_.entries_of(0);
  sharding::verify_files(dataset_, entries, sharding::confinement(settings_.data));
  store_ = std::make_unique<GroupStore>(settings_, dataset_, entries, EvalIndices());
  store_->prepare_plans(trained.model->plan_request());
  store_->read_ahead(entries);
}

void TuningData::check_inputs(const TrainedModel& trained) const {
  const auto& schema = trained.state.schema;
  for (const auto& entry : dataset_.entries) {
    const auto& header = entry.header;
    if (header.feature_count != schema.feature_count) {
      throw coordinator::RunError(fmt::format("{}: {} node features, the model was trained on {}", header.file.string(),
                                              header.feature_count, schema.feature_count));
    }
    if (header.node_type_count > schema.node_type_count) {
      throw coordinator::RunError(fmt::format("{}: node types up to {}, the model knows those below {}",
                                              header.file.string(), header.node_type_count - 1,
                                              schema.node_type_count));
    }
  }
}

void TuningData::divide(const sharding::DatasetIndex& listed) {
  auto without = settings_;
  without.data.holdout = 0;
  for (const auto& entry : listed.entries) {
    LoadedGroup labels;
    const auto summary = data::load_summary(entry.header);
    labels.group.name = entry.header.name;
    labels.group.kind = entry.header.kind;
    labels.group.candidates = entry.header.candidates;
    labels.group.runtimes = summary.runtimes;
    const auto configurations = summary.configurations.span();
    auto all = labels;
    divide_candidates(all, sharding::Role::train, without, {}, configurations);  // throws without labels
    try {
      divide_candidates(labels, sharding::Role::train, settings_, {}, configurations);
    } catch (const DataError&) {
      left_out_.push_back(entry.header.name);  // no other reason is left
      continue;
    }
    trained_on_ += static_cast<int64_t>(labels.train.size());
    held_out_ += static_cast<int64_t>(labels.evaluated.size());
    dataset_.entries.push_back(entry);
  }
  if (dataset_.entries.empty()) {
    const auto& first = listed.entries.front().header;
    throw DataError(
        fmt::format("{}: all {} candidates would be held out{}, expected some to learn from: measure "
                    "more, or hold out less than {}",
                    first.name, first.candidates, left_out_.size() > 1 ? ", and those of all other groups" : "",
                    settings_.data.holdout));
  }
}

Evaluation TuningData::evaluate(const TrainedModel& trained) const {
  const auto alone = comm::make_single_communicator();
  return evaluate_model(
      trained.model,
      {.settings = settings_, .targets = trained.state.targets, .max_states = settings_.trainer.eval_states},
      {"holdout"}, {dataset_, plan_, *store_, *alone});
}

}  // namespace foretime::worker
