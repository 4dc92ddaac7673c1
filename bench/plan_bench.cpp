#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "data/dataset/group_files.h"
#include "plans/plan_source.h"

/// Message plans that share states: how long they take, and how many states they leave of nodes × candidates.
/// usage: plan_bench LAYERS CANDIDATES FILE... (CANDIDATES 0: all)
namespace {

using namespace foretime;
using namespace foretime::data;
using namespace foretime::plans;
std::vector<int64_t> draw(int64_t of, int64_t count, uint64_t seed) {
  std::vector<int64_t> all(static_cast<size_t>(of));
  std::iota(all.begin(), all.end(), 0);
  std::mt19937_64 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(static_cast<size_t>(count == 0 ? of : std::min(of, count)));
  return all;
}

void measure(const GroupHeader& header, int64_t layers, int64_t candidates) {
  const Group group = load_group(header);
  PlanRequest request{layers, {{Direction::in, EdgeNorm::mean, false}, {Direction::out, EdgeNorm::mean, false}}};
  request.sharing = Sharing::states;
  std::shared_ptr<const PlanSource> source;
  const double symbolic =
      1e3 * bench::seconds_of(bench::wall_seconds, [&] { source = make_plan_source(group, request); });
  std::printf(
      "%s: %ld nodes, %ld configurable, %ld candidates; symbolic plan %.1f ms, %ld classes, %ld and %ld parts\n",
      group.name.c_str(), group.graphs.nodes(), group.layout.configurable(), group.candidates, symbolic,
      source->symbolic->classes.count(), source->symbolic->node_parts.size(),
      source->symbolic->configurable_parts.size());
  bench::Best best;
  MessagePlan plan;
  for (uint64_t round = 0; round < 5; ++round) {
    const auto chosen = draw(group.candidates, candidates, round);
    best.time(bench::wall_seconds, [&] {
      PlanBuilder builder(request);
      builder.add(group, chosen, source);
      plan = std::move(builder).build();
    });
  }
  std::printf("  plan of %ld candidates: %.2f ms\n", plan.candidates(), 1e3 * best.seconds());
  for (size_t l = 0; l < plan.levels.size(); ++l) {
    const auto& level = source->symbolic->levels[l];
    const auto states = plan.levels[l]->states();
    size_t entries = 0;
    if (l > 0) {
      for (const auto& relation : plan.layers[l - 1]->relations) entries += relation.columns.size();
    }
    std::printf(
        "  level %zu: %ld fixed states, %ld varying nodes, %ld states (%.5f of nodes x candidates), %zu messages\n", l,
        level.fixed.states(), level.varying.nodes(), states,
        static_cast<double>(states) / static_cast<double>(group.graphs.nodes() * plan.candidates()), entries);
  }
  for (const auto& stage : plan.readout.nodes.stages)
    std::printf("  readout: %ld rows of %zu entries\n", stage.rows, stage.columns.size());
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run(argc, argv, "LAYERS CANDIDATES FILE...", 3, argc, [&] {
    const std::vector<std::string> files(argv + 3, argv + argc);
    for (const auto& header : list_groups(files, ".", CandidateKind::layout))
      measure(header, std::atol(argv[1]), std::atol(argv[2]));
  });
}
