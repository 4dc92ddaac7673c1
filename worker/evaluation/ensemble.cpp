#include "worker/evaluation/ensemble.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "comm/agree.h"
#include "data/graphs/pruning.h"
#include "worker/evaluation/segment_evaluation.h"

namespace foretime::worker {
namespace {

using coordinator::RunError;

const char* plural_name(data::CandidateKind kind) {
  switch (kind) {
    case data::CandidateKind::layout:
      return "layouts";
    case data::CandidateKind::tile:
      return "tiles";
    case data::CandidateKind::program:
      return "tensor programs";
  }
  return "";
}

std::string inputs_text(const TrainingState& state) {
  const auto& schema = state.schema;
  auto text = fmt::format("{} of {} node features and {} node types", plural_name(schema.kind), schema.feature_count,
                          schema.node_type_count);
  if (schema.kind == data::CandidateKind::program) {
    const auto& machine = state.settings.data.hardware;
    text += fmt::format(" (data.representation {}, data.hardware {} {} {} {} {} {})",
                        word_of(state.settings.data.representation), machine.vector_bytes, machine.vector_registers,
                        machine.cores, machine.l1_bytes, machine.l2_bytes, machine.l3_bytes);
  }
  return text;
}

}  // namespace

void check_same_inputs(const std::vector<EnsembleMember>& members) {
  const auto& first = members.front();
  const auto expected = inputs_text(first.trained.state);
  for (const auto& member : members) {
    const auto found = inputs_text(member.trained.state);
    if (found == expected) continue;
    throw RunError(fmt::format(
        "{}: was trained on {}, expected {} as {}: members of an ensemble score the same candidates; leave it out",
        member.name, found, expected, first.name));
  }
}

bool hold_out_the_same(const std::vector<EnsembleMember>& members, const configs::Settings& settings) {
  return std::all_of(members.begin(), members.end(), [&](const EnsembleMember& member) {
    const auto& own = member.trained.state.settings;
    return own.trainer.seed == settings.trainer.seed && own.data.holdout >= settings.data.holdout;
  });
}

Ensemble::Ensemble(std::vector<EnsembleMember> members, torch::Device device) : members_(std::move(members)) {
  check_same_inputs(members_);
  for (const auto& [name, trained] : members_) {
    const auto& settings = trained.state.settings;
    scorers_.push_back(scorer_for(trained.model, {.settings = settings,
                                                  .targets = trained.state.targets,
                                                  .tie_thresholds = trained.state.tie_thresholds,
                                                  .device = device,
                                                  .max_states = settings.trainer.eval_states}));
  }
}

GroupEvaluation Ensemble::rank(const data::GroupHeader& header, const data::Group& group) const {
  std::vector<int64_t> all(static_cast<size_t>(group.candidates));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Scores> scores;
  for (size_t m = 0; m < members_.size(); ++m) {
    const auto& trained = members_[m].trained;
    const auto& settings = trained.state.settings;
    LoadedGroup loaded{.group = data::pruned_group(group, settings.data.prune_hops)};
    loaded.segments = segments_of(loaded.group, settings);
    if (!loaded.segments || settings.segments.stale == configs::Stale::full_forward) {
      loaded.plan_source =
          plans::load_plan_source(header, loaded.group, trained.model->plan_request(), settings.data.prune_hops);
    }
    scores.push_back(scorers_[m](loaded, all));
  }
  const Scorer joined = [&](const LoadedGroup&, const std::vector<int64_t>&) { return models::joined_scores(scores); };
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
      group.scores = models::joined_scores(scores);
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
