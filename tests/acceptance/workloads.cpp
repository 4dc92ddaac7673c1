#include "tests/acceptance/workloads.h"

#include <fmt/format.h>

#include "configs/load.h"
#include "data/dataset/group_files.h"
#include "sharding/dataset_index.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::acceptance {
namespace {

bool has_layouts(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".npz") return true;
  return false;
}

void write_layouts(const Options& options, const std::vector<int64_t>& sizes) {
  if (has_layouts(options.layouts)) return;
  std::filesystem::create_directories(options.layouts);
  for (size_t i = 0; i < sizes.size(); ++i) {
    foretime::testing::write_synthetic(options.layouts / fmt::format("synthetic_{}.npz", i),
                                       {.nodes = sizes[i],
                                        .configurable = sizes[i] / 10,
                                        .candidates = sizes.back() < 1000 ? 64 : 1000,
                                        .seed = i + 1});
  }
}

Workload layouts(const Options& options, const std::string& name, const std::string& config,
                 std::vector<std::string> overrides = {}) {
  overrides.push_back("sampler.groups_per_batch=4");
  if (!name.starts_with("segments")) overrides.push_back("sampler.max_segment_nodes=0");
  auto settings = configs::load_settings(options.source / "configs" / config, overrides);
  settings = without_extras(settings, options.work / "run");
  settings.data.root = options.layouts.string();
  settings.data.train = {"*.npz"};
  return {name, std::move(settings)};
}

Workload programs(const Options& options, const std::string& name, const std::string& config,
                  const std::vector<std::string>& overrides = {}) {
  auto settings = configs::load_settings(options.source / "configs" / config, overrides);
  settings = without_extras(settings, options.work / "run");
  settings.data.root = (options.source / "samples/resnet18_conv2d").string();
  settings.data.train = {"{C1,C2,C4,C8}.npz"};
  settings.sampler.groups_per_batch = 4;
  return {name, std::move(settings)};
}

}  // namespace

configs::Settings without_extras(configs::Settings settings, const std::filesystem::path& folder) {
  settings.run.directory = folder.string();
  settings.run.overwrite = true;
  settings.trainer.steps = 1000;
  settings.trainer.eval_every = 0;
  settings.trainer.log_every = 1000;
  settings.trainer.threads = 1;
  settings.checkpoint.every_steps = 0;
  settings.data.valid = settings.data.test = {};
  settings.data.eval_indices.clear();
  settings.data.holdout = 0.2;
  settings.data.max_eval_candidates = 200;
  settings.trainer.metric = "holdout/kendall_tau";
  settings.trainer.metric_goal = configs::Settings().trainer.metric_goal;
  settings.trainer.baselines = {};
  return settings;
}

void make_layouts(const Options& options) {
  write_layouts(options,
                options.brief ? std::vector<int64_t>{60, 70, 80, 90} : std::vector<int64_t>{400, 1100, 2800, 3200});
}

Options with_small_layouts(const Options& options) {
  auto small = options;
  small.layouts = options.work / "small_layouts";
  write_layouts(small, options.brief ? std::vector<int64_t>{60, 70, 80, 90} : std::vector<int64_t>{80, 150, 300, 600});
  return small;
}

Options with_large_layouts(const Options& options) {
  auto large = options;
  large.layouts = options.work / "large_layouts";
  write_layouts(large, options.brief ? std::vector<int64_t>{120, 200} : std::vector<int64_t>{12'000, 20'000});
  return large;
}

Workload published_workload(const Options& options) {
  return layouts(options, "segments as published", "baselines/residual_gcn.yaml",
                 {options.brief ? "sampler.max_segment_nodes=30" : "sampler.max_segment_nodes=5000"});
}

Workload layout_workload(const Options& options) {
  return layouts(options, "residual GCN 2 x 32", "baselines/residual_gcn.yaml");
}

std::vector<Workload> timed_workloads(const Options& options) {
  // Vectors of node types need few walks here: nobody measures how good they are.
  const auto wide = options.brief ? "model.hidden=64" : "model.hidden=256",
             nodes = options.brief ? "model.hidden=32" : "model.hidden=128";
  return {layout_workload(options),
          layouts(options, options.brief ? "SAGE 3 x 64" : "SAGE 3 x 256", "baselines/residual_gcn.yaml",
                  {"model.type=sage", "model.layers=3", wide}),
          layouts(options, "GAT 3 x 64", "baselines/xu_gat_listmle_layout.yaml"),
          programs(options, "statement costs", "statement_cost.yaml"),
          programs(options, "TPGNN", "tpgnn.yaml", {"model.node_types.walks=200", nodes})};
}

std::vector<Workload> all_workloads(const Options& options) {
  auto all = timed_workloads(options);
  const std::string residual = "baselines/residual_gcn.yaml",
                    cut = fmt::format("sampler.max_segment_nodes={}", options.brief ? 30 : 100);
  all.push_back(layouts(options, "segments, past pools", residual, {cut, "segments.stale=pools"}));
  all.push_back(layouts(options, "segments, all nodes forward", residual, {cut, "segments.stale=full_forward"}));
  all.push_back(layouts(options, "plans of the drawn candidates", residual, {"sampler.resident_plans=never"}));
  all.push_back(layouts(options, "dropped edges", residual, {"model.type=gcn", "model.edge_dropout=0.2"}));
  all.back().drops = true;
  return all;
}

std::vector<data::Group> groups_of(data::CandidateKind kind, const Options& options) {
  std::vector<data::Group> groups;
  if (kind == data::CandidateKind::program) {
    auto settings = programs(options, "", "tpgnn.yaml").settings;
    settings.data.train = {"{C1,C12}.npz"};
    for (const auto& entry : sharding::make_dataset_index(settings).entries)
      groups.push_back(data::load_group(entry.header));
    return groups;
  }
  for (const uint64_t seed : {1, 2}) {
    const int64_t nodes = options.brief ? 40 : 300;
    auto group = foretime::testing::synthesize_layout_group(
        {.nodes = nodes, .configurable = nodes / 5, .candidates = 64, .seed = seed}, "synthetic");
    if (kind == data::CandidateKind::tile) {
      group.kind = kind;
      group.unit = data::RuntimeUnit::normalized;
      group.layout = {};
      group.node_splits = {};
      std::vector<float> features(static_cast<size_t>(group.candidates * data::kTileFeatures));
      for (size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>((i * i + 7 * i + seed) % 61);
      group.tile_features = features;
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace foretime::acceptance
