#include "worker/evaluation/evaluation_run.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "comm/communicator.h"
#include "configs/load.h"
#include "coordinator/best_checkpoint.h"
#include "data/dataset/table_pack.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/graphs/pruning.h"
#include "sharding/dataset_index.h"
#include "worker/evaluation/scoring.h"

namespace foretime::worker {
namespace {

using coordinator::RunError;

const char* plural_name(data::CandidateKind kind) {
  switch (kind) {
    case data::CandidateKind::layout: return "layouts";
    case data::CandidateKind::tile: return "tiles";
    case data::CandidateKind::program: return "tensor programs";
  }
  return "";
}

std::string inputs_text(const TrainingState& state) {
  const auto& schema = state.schema;
  auto text = fmt::format("{} of {} node features and {} node types", plural_name(schema.kind), schema.feature_count,
                          schema.node_type_count);
  if (schema.kind == data::CandidateKind::program) {
    const auto& machine = state.settings.data.hardware;
    text +=
        fmt::format(" (data.representation {}, data.hardware {} {} {} {} {} {} {} {} {} {})",
                    word_of(state.settings.data.representation), machine.vector_bytes, machine.vector_registers,
                    machine.cores, machine.l1_bytes, machine.l2_bytes, machine.l3_bytes, machine.multiply_add_gflop_s,
                    machine.all_multiply_add_gflop_s, machine.copy_gb_s, machine.all_copy_gb_s);
  }
  if (!state.columns.empty()) text += " of a table " + state.columns;
  return text;
}

}  // namespace

TrainedModel load_for_all(const std::filesystem::path& checkpoint, comm::Communicator& comm, torch::Device device) {
  std::string bytes;
  comm::run_together(comm, [&] {
    if (comm.rank() == 0) bytes = serialize(coordinator::read_best_or_newest(checkpoint));
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
    if (comm.rank() != 0) return;
    const auto index = sharding::make_dataset_index(own, trained.state.schema.feature_count);
    data::check_columns(index.headers(), trained.state.columns, "the model");
    listed = sharding::serialize(index);
  });
  const auto catalogue = sharding::parse_dataset_index(
      comm.broadcast_bytes(listed, 0), data::make_featurizer(settings.data, trained.state.schema.feature_count));
  const auto plan = sharding::make_shard_plan(catalogue, own, comm.size());
  std::unique_ptr<GroupStore> store;
  comm::run_together(comm, [&] {
    std::vector<int64_t> entries;
    for (size_t entry = 0; entry < catalogue.entries.size(); ++entry) {
      const auto& ranks = plan.eval_parts[entry];
      if (std::find(ranks.begin(), ranks.end(), comm.rank()) == ranks.end()) continue;
      const auto& header = catalogue.entries[entry].header;
      if (header.feature_count != trained.state.schema.feature_count)
        throw coordinator::RunError("{}: {} node features, the model was trained on {}", header.file.string(),
                                    header.feature_count, trained.state.schema.feature_count);
      entries.push_back(entry);
    }
    sharding::verify_files(catalogue, entries, sharding::allowed_roots_check(settings.data));
    store = std::make_unique<GroupStore>(own, catalogue, entries, load_official_indices(settings.data));
    store->prepare_plans(trained.model->plan_request());
    store->read_ahead(entries);
  });
  auto options = scoring_options(trained.state, device);
  options.max_states = settings.trainer.eval_states;
  options.on_scored = [&comm, told = std::move(on_scored)](int64_t candidates) {
    comm.keep_alive();
    if (told) told(candidates);
  };
  return evaluate_model(trained.model, options, sets, {catalogue, plan, *store, comm});
}

void check_same_inputs(const std::vector<EnsembleMember>& members) {
  const auto& first = members.front();
  const auto expected = inputs_text(first.trained.state);
  for (const auto& member : members) {
    const auto found = inputs_text(member.trained.state);
    if (found == expected) continue;
    throw RunError(
        "{}: was trained on {}, expected {} as {}: members of an ensemble score the same candidates; leave it out",
        member.name, found, expected, first.name);
  }
}

bool have_equal_holdouts(const std::vector<EnsembleMember>& members, const configs::Settings& settings) {
  return std::all_of(members.begin(), members.end(), [&](const EnsembleMember& member) {
    const auto& own = member.trained.state.settings;
    return own.trainer.seed == settings.trainer.seed && own.data.holdout >= settings.data.holdout;
  });
}

Ensemble::Ensemble(std::vector<EnsembleMember> members, torch::Device device) : members_(std::move(members)) {
  check_same_inputs(members_);
  for (const auto& [name, trained] : members_)
    scorers_.push_back(scorer_for(trained.model, scoring_options(trained.state, device)));
}

GroupEvaluation Ensemble::rank(const data::Group& group) const {
  std::vector<int64_t> all(group.candidates);
  std::iota(all.begin(), all.end(), 0);
  std::vector<Scores> scores;
  for (size_t m = 0; m < members_.size(); ++m) {
    const auto& trained = members_[m].trained;
    const auto& settings = trained.state.settings;
    LoadedGroup loaded{.group = data::pruned_group(group, settings.data.prune_hops)};
    loaded.segments = segments_of(loaded.group, settings);
    if (!loaded.segments || settings.segments.stale == configs::Stale::full_forward)
      loaded.plan_source = plans::make_plan_source(loaded.group, trained.model->plan_request());
    scores.push_back(scorers_[m](loaded, all));
  }
  const Scorer joined = [&](const LoadedGroup&, const std::vector<int64_t>&) { return metrics::joined_scores(scores); };
  return evaluate_group(joined, "rank", {.group = group}, std::move(all));
}

Evaluation joined_evaluation(const std::vector<Evaluation>& members, data::CandidateKind kind,
                             comm::Communicator& comm) {
  Evaluation joined;
  comm::run_together(comm, [&] {
    const auto& first = members.front().groups;
    for (const auto& member : members) {
      const bool same =
          std::equal(member.groups.begin(), member.groups.end(), first.begin(), first.end(),
                     [](const GroupEvaluation& a, const GroupEvaluation& b) {
                       return std::tie(a.set, a.group, a.candidates) == std::tie(b.set, b.group, b.candidates);
                     });
      if (!same) throw RunError("members of an ensemble evaluated different candidates, expected the same");
    }
    for (size_t g = 0; g < first.size(); ++g) {
      std::vector<Scores> scores;
      for (const auto& member : members) scores.push_back(member.groups[g].scores);
      GroupEvaluation group = first[g];
      group.scores = metrics::joined_scores(scores);
      if (!group.runtimes.empty()) {
        const auto ceiling = group.metrics.find("noise_ceiling_tau");
        auto metrics = measure(group, kind);
        if (ceiling != group.metrics.end()) metrics.insert(*ceiling);
        group.metrics = std::move(metrics);
      }
      joined.groups.push_back(std::move(group));
    }
  });
  joined.metrics = mean_metrics(joined.groups, comm);
  return joined;
}

}  // namespace foretime::worker
