#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/graphs/group.h"
#include "sharding/shard_plan.h"
#include "tests/support/paths.h"
#include "worker/store/group_store.h"

namespace foretime::worker::testing {

/// The parts of a run on so many ranks, put together without a trainer.
struct RunParts {
  RunParts(const configs::Settings& wanted, int rank_count)
      : settings(wanted),
        dataset(sharding::make_dataset_index(settings)),
        plan(sharding::make_shard_plan(dataset, settings, rank_count)),
        store(settings, dataset, all_entries(), {}) {}

  std::vector<int64_t> all_entries() const {
    std::vector<int64_t> all;
    for (size_t i = 0; i < dataset.entries.size(); ++i) all.push_back(static_cast<int64_t>(i));
    return all;
  }

  configs::Settings settings;
  sharding::DatasetIndex dataset;
  sharding::ShardPlan plan;
  GroupStore store;
};

/// Settings for a quick run on three measured workloads.
inline configs::Settings sample_settings(double fast_bias = 0) {
  configs::Settings settings;
  settings.data.format = configs::DataFormat::programs;
  settings.data.root = (foretime::testing::samples_dir() / "resnet18_conv2d").string();
  settings.data.train = {"C1.npz", "C12.npz"};
  settings.data.test = {"C10.npz"};
  settings.data.holdout = 0.2;
  settings.data.max_eval_candidates = 40;
  settings.model.type = configs::ModelType::gcn;
  settings.model.hidden = 16;
  settings.model.readout = {configs::ReadoutPart::mean};
  settings.model.features.transform = configs::FeatureTransform::zscore;
  settings.loss.type = configs::LossType::huber;
  settings.loss.target = configs::LossTarget::log_runtime;
  settings.loss.standardize_target = true;
  settings.sampler = {.groups_per_batch = 3, .candidates_per_group = 8, .fast_bias = fast_bias, .samples_per_group = 5};
  settings.trainer.steps = 6;
  settings.trainer.metric = "holdout/kendall_tau";
  settings.trainer.device = configs::Device::cpu;
  settings.trainer.log_every = 1;
  return settings;
}

/// A tile group of a chain of three nodes, whose candidate c has the single feature values[c]; run times are 1 +
/// values[c].
inline data::Group tile_group(const std::string& name, const std::vector<float>& values) {
  data::Group group;
  group.name = name;
  group.kind = data::CandidateKind::tile;
  group.unit = data::RuntimeUnit::normalized;
  group.candidates = static_cast<int64_t>(values.size());
  group.graphs.feature_count = 2;
  group.graphs.node_type_count = 4;
  group.graphs.graph_ptr = std::vector<int64_t>{0, 3};
  group.graphs.edge_ptr = std::vector<int64_t>{0, 2};
  group.graphs.node_features = std::vector<float>{1, 2, 3, 4, 5, 7};
  group.graphs.node_types = std::vector<uint8_t>{1, 2, 3};
  group.graphs.edge_source = std::vector<int32_t>{0, 1};
  group.graphs.edge_target = std::vector<int32_t>{1, 2};
  std::vector<float> features(values.size() * data::kTileFeatures, 0.0F);
  std::vector<double> runtimes;
  for (size_t c = 0; c < values.size(); ++c) {
    features[c * data::kTileFeatures] = values[c];
    runtimes.push_back(1.0 + values[c]);
  }
  group.tile_features = features;
  group.runtimes = runtimes;
  return group;
}

}  // namespace foretime::worker::testing
