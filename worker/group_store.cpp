#include "worker/group_store.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "coordinator/confinement.h"
#include "coordinator/counter_random.h"
#include "data/error.h"

namespace foretime::worker {
namespace {

using coordinator::random_unit;

// What a random number is for, so that draws for different ends are independent.
enum Purpose : uint64_t { kHoldout = 11, kFraction = 12, kEvaluation = 13 };

std::vector<double> ranks_of(const data::Group& group, const std::vector<int64_t>& candidates) {
  std::vector<int64_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return group.runtimes[candidates[static_cast<size_t>(a)]] < group.runtimes[candidates[static_cast<size_t>(b)]];
  });
  std::vector<double> rank(candidates.size());
  const double last = std::max<double>(1.0, static_cast<double>(candidates.size()) - 1);
  for (size_t i = 0; i < order.size(); ++i) rank[static_cast<size_t>(order[i])] = static_cast<double>(i) / last;
  return rank;
}

/// At most `limit` of the candidates, chosen at random but the same in every run with this seed; ascending.
std::vector<int64_t> limited(std::vector<int64_t> candidates, int64_t limit, uint64_t seed) {
  const auto count = static_cast<int64_t>(candidates.size());
  if (limit <= 0 || count <= limit) return candidates;
  const coordinator::KeyedPermutation permutation(static_cast<uint64_t>(count),
                                                  coordinator::random_bits({seed, kEvaluation}));
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < limit; ++i) chosen.push_back(candidates[permutation(static_cast<uint64_t>(i))]);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

EvalIndices load_official_indices(const configs::DataSettings& settings) {
  if (settings.eval_indices.empty()) return {};
  const auto file = std::filesystem::path(settings.root) / settings.eval_indices;
  if (const auto admit = coordinator::confinement(settings)) admit(file);
  return data::read_eval_indices(file);
}

void divide_candidates(LoadedGroup& loaded, coordinator::Role role, const configs::Settings& settings,
                       const EvalIndices& official) {
  const auto& group = loaded.group;
  const uint64_t seed = settings.trainer.seed;
  std::vector<int64_t> held_out;
  if (role != coordinator::Role::train) {
    if (const auto named = official.find(group.name); named != official.end()) {
      for (const int64_t id : named->second) {
        if (id < 0 || id >= group.candidates) {
          throw data::DataError(fmt::format("{}: {}: candidate {}, expected 0 … {}", settings.data.eval_indices,
                                            group.name, id, group.candidates - 1));
        }
      }
      loaded.evaluated = named->second;
      return;
    }
    held_out.resize(static_cast<size_t>(group.candidates));
    std::iota(held_out.begin(), held_out.end(), 0);
  } else {
    if (!group.labelled())
      throw data::DataError(fmt::format("{}: all run times are 0, expected labels in training data", group.name));
    const auto hashes = data::configuration_hashes(group);
    for (int64_t c = 0; c < group.candidates; ++c) {
      const uint64_t hash = hashes[static_cast<size_t>(c)];
      if (random_unit({seed, kHoldout, hash}) < settings.data.holdout) {
        held_out.push_back(c);
      } else if (random_unit({seed, kFraction, hash}) < settings.data.train_fraction) {
        loaded.train.push_back(c);
      }
    }
    if (loaded.train.empty()) {
      throw data::DataError(
          fmt::format("{}: no candidate is left to train on (of {}, with data.holdout {} and data.train_fraction {})",
                      group.name, group.candidates, settings.data.holdout, settings.data.train_fraction));
    }
    loaded.speed_rank = ranks_of(group, loaded.train);
  }
  loaded.evaluated = limited(std::move(held_out), settings.data.max_eval_candidates, seed);
}

GroupStore::GroupStore(const configs::Settings& settings, const coordinator::Catalogue& catalogue,
                       const std::vector<int64_t>& entries, const EvalIndices& official) {
  for (const int64_t entry : entries) {
    const auto& item = catalogue.entries[static_cast<size_t>(entry)];
    LoadedGroup loaded;
    loaded.group = data::load_group(item.header);
    divide_candidates(loaded, item.role, settings, official);
    groups_.emplace(entry, std::move(loaded));
  }
}

void GroupStore::prepare_plans(const data::PlanRequest& request, int64_t max_nodes) {
  for (auto& [entry, loaded] : groups_) {
    const bool cut =
        loaded.group.kind == data::CandidateKind::layout && max_nodes > 0 && loaded.group.graphs.nodes() > max_nodes;
    if (!cut) loaded.plan_source = data::make_plan_source(loaded.group, request);
  }
}

}  // namespace foretime::worker
