#pragma once

#include <filesystem>
#include <memory>

#include "models/model.h"
#include "tests/support/synthetic_graph.h"
#include "tests/worker/samples.h"
#include "worker/batches/sampler.h"
#include "worker/segments/segment_training.h"

namespace foretime::worker::testing {

/// Settings for a quick run on two made-up layout graphs, of 90 and 50 nodes, that are written to `folder`; segments of
/// at most 30 nodes cut them into 3 and 2.
inline configs::Settings segmented_settings(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  foretime::testing::write_synthetic(folder / "synthetic_a.foretime",
                                     {.nodes = 90, .configurable = 20, .candidates = 24, .seed = 1});
  foretime::testing::write_synthetic(folder / "synthetic_b.foretime",
                                     {.nodes = 50, .configurable = 12, .candidates = 24, .seed = 2});
  configs::Settings settings;
  settings.data.format = configs::DataFormat::layout;
  settings.data.root = folder.string();
  settings.data.train = {"synthetic_a.foretime", "synthetic_b.foretime"};
  settings.data.holdout = 0.3;
  settings.model.type = configs::ModelType::residual_gcn;
  settings.model.hidden = 8;
  settings.model.node_type_embedding = 4;
  settings.model.readout = {configs::ReadoutPart::mean, configs::ReadoutPart::normalized_sum,
                            configs::ReadoutPart::configurable_max};
  settings.model.features.layout_scale = 1;
  settings.loss.type = configs::LossType::pairwise_hinge;
  settings.sampler = {.groups_per_batch = 2, .candidates_per_group = 6, .fast_bias = 0, .samples_per_group = 5};
  settings.sampler.max_segment_nodes = 30;
  settings.trainer.steps = 8;
  settings.trainer.metric = "holdout/kendall_tau";
  settings.trainer.device = configs::Device::cpu;
  settings.trainer.log_every = 100;
  return settings;
}

/// The parts of such a run, with its model.
struct SegmentedRun : RunParts {
  explicit SegmentedRun(const configs::Settings& wanted, int rank = 0, int ranks = 1) : RunParts(wanted, ranks) {
    torch::manual_seed(3);
    const auto& group = store.get(0).group;
    model = models::make_model(
        settings.model,
        {.kind = data::CandidateKind::layout, .feature_count = group.graphs.feature_count, .node_type_count = 128});
    segments = std::make_unique<SegmentTraining>(settings, dataset, plan, rank, *model, torch::kCPU);
  }

  /// A sample with the live segment `live`, whatever its key says.
  SampledGraph draw(int64_t entry, std::vector<int64_t> candidates, int64_t live, uint64_t key = 1,
                    int64_t index = 0) const {
    auto graph = segments->choose({entry, 1.0, std::move(candidates), 0, key, index}, store.get(entry));
    graph.live = live;
    return graph;
  }

  /// The samples' live segments as one plan.
  models::PlanTensors plan_of(std::vector<SampledGraph>& graphs) const {
    plans::PlanBuilder builder(model->plan_request());
    for (auto& graph : graphs) segments->add(graph, store.get(graph.sample.entry), builder);
    return models::to_tensors(std::move(builder).build());
  }

  torch::Tensor score(std::vector<SampledGraph> graphs) {
    const auto live = plan_of(graphs);
    return segments->score(*model, live, graphs);
  }

  /// One segment of a graph alone, as a group of its own: the slow way to its scores and pools.
  models::PlanTensors segment_plan(int64_t entry, const std::vector<int64_t>& candidates, int64_t segment) const {
    const auto& group = store.get(entry).group;
    const auto cut = data::make_segments(group, segment_rule(settings));
    const auto induced = plans::induced_group(group, cut[segment]);
    plans::PlanBuilder builder(model->plan_request());
    builder.add(induced, candidates);
    return models::to_tensors(std::move(builder).build());
  }
  torch::Tensor segment_scores(int64_t entry, const std::vector<int64_t>& candidates, int64_t segment) const {
    return model->score(segment_plan(entry, candidates, segment)).detach();
  }
  torch::Tensor segment_pools(int64_t entry, const std::vector<int64_t>& candidates, int64_t segment) const {
    return model->pool(segment_plan(entry, candidates, segment)).detach();
  }

  std::shared_ptr<models::CostModel> model;
  std::unique_ptr<SegmentTraining> segments;
};

}  // namespace foretime::worker::testing
