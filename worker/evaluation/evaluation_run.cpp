#include "worker/evaluation/evaluation_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "comm/agree.h"
#include "configs/load.h"
#include "data/frontends/loops/loop_graph.h"
#include "sharding/dataset_index.h"
#include "worker/evaluation/segment_evaluation.h"

namespace foretime::worker {

TrainedModel load_for_all(const std::filesystem::path& checkpoint, comm::Communicator& comm, torch::Device device) {
  std::string bytes;
  comm::run_together(comm, [&] {
    if (comm.rank() == 0) bytes = serialize(coordinator::read_checkpoint(checkpoint));
  });
  bytes = comm.broadcast_bytes(bytes, 0);
  TrainedModel trained;
  comm::run_together(comm, [&] {
    trained = load_trained_model(parse_stored_checkpoint(bytes));
    trained.model->to(device);
  });
  return trained;
}

Evaluation evaluate_trained(const TrainedModel& trained, const configs::Settings& settings,
                            const std::vector<std::string>& sets, comm::Communicator& comm, torch::Device device,
                            std::function<void(int64_t)> on_scored) {
  auto own = settings;  // graphs are pruned and cut as in training
  own.model = trained.state.settings.model;
  own.sampler.max_segment_nodes = trained.state.settings.sampler.max_segment_nodes;
  own.segments = trained.state.settings.segments;
  own.data.prune_hops = trained.state.settings.data.prune_hops;
  std::string listed;
  comm::run_together(comm, [&] {
    if (const auto conflict = configs::find_pruning_conflict(own); !conflict.empty())
      throw configs::SettingsError(conflict);
    if (comm.rank() == 0) listed = sharding::serialize(sharding::make_dataset_index(own));
  });
  const auto catalogue =
      sharding::parse_dataset_index(comm.broadcast_bytes(listed, 0), data::make_featurizer(settings.data));
  const auto plan = sharding::make_shard_plan(catalogue, own, comm.size());
  std::unique_ptr<GroupStore> store;
  comm::run_together(comm, [&] {
    std::vector<int64_t> entries;
    for (size_t entry = 0; entry < catalogue.entries.size(); ++entry) {
      const auto& ranks = plan.eval_parts[entry];
      if (std::find(ranks.begin(), ranks.end(), comm.rank()) == ranks.end()) continue;
      const auto& header = catalogue.entries[entry].header;
      if (header.feature_count != trained.state.schema.feature_count) {
        throw coordinator::RunError(fmt::format("{}: {} node features, the model was trained on {}",
                                                header.file.string(), header.feature_count,
                                                trained.state.schema.feature_count));
      }
      entries.push_back(static_cast<int64_t>(entry));
    }
    sharding::verify_files(catalogue, entries, sharding::confinement(settings.data));
    store = std::make_unique<GroupStore>(own, catalogue, entries, load_official_indices(settings.data));
    store->prepare_plans(trained.model->plan_request());
    store->read_ahead(entries);
  });
  return evaluate_model(trained.model,
                        {.settings = trained.state.settings,
                         .targets = trained.state.targets,
                         .tie_thresholds = trained.state.tie_thresholds,
                         .device = device,
                         .max_states = settings.trainer.eval_states,
                         .on_scored = on_scored},
                        sets, {catalogue, plan, *store, comm});
}

}  // namespace foretime::worker
