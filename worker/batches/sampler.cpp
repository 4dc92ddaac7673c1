#include "worker/batches/sampler.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "base/counter_random.h"

namespace foretime::worker {

std::vector<int64_t> Sampler::choose(const LoadedGroup& loaded, int64_t entry, int64_t epoch, int64_t round) const {
  const auto total = std::ssize(loaded.train);
  const int64_t most = settings_.candidates_per_group;
  const int64_t wanted = most == 0 ? total : std::min(most, total);
  const uint64_t e = entry, t = epoch;
  std::vector<int64_t> chosen;
  chosen.reserve(wanted);
  if (settings_.fast_bias == 0) {
    // Consecutive pieces of one permutation a group and epoch: no candidate twice before all were sampled.
    const KeyedPermutation permutation(total, random_bits({seed_, random_stream::candidates, e, t}));
    for (int64_t i = 0; i < wanted; ++i) chosen.push_back(loaded.train[permutation((round * wanted + i) % total)]);
    return chosen;
  }
  FORETIME_CHECK(loaded.speed_rank.size() == loaded.train.size(), "its candidates were not ranked by speed");
  // The top of log-weight + Gumbel is a sample without replacement with weights exp(-bias * rank).
  std::vector<std::pair<double, int64_t>> keyed(total);
  for (int64_t i = 0; i < total; ++i) {
    const double gumbel = random_gumbel({seed_, random_stream::candidate_bias, e, t, round, i});
    keyed[i] = {settings_.fast_bias * loaded.speed_rank[i] - gumbel, i};
  }
  std::partial_sort(keyed.begin(), keyed.begin() + wanted, keyed.end());
  for (int64_t i = 0; i < wanted; ++i) chosen.push_back(loaded.train[keyed[i].second]);
  return chosen;
}

std::vector<int64_t> Sampler::first_uses(int64_t batch, int rank) const {
  const int64_t epoch = batch / plan_.batches_per_epoch, start = batch % plan_.batches_per_epoch;
  const auto key = sharding::epoch_key(seed_, epoch);
  std::vector<int64_t> entries;
  std::unordered_set<int64_t> seen;
  for (int64_t position = start; position < plan_.batches_per_epoch; ++position) {
    for (const int64_t index : plan_.slots_of(rank)) {
      if (position >= plan_.slots[index].samples) continue;
      const auto entry = plan_.sample_at(index, position, key).entry;
      if (seen.insert(entry).second) entries.push_back(entry);
    }
  }
  return entries;
}

std::vector<Sample> Sampler::samples(int64_t batch, int rank, const GroupStore& store) const {
  const int64_t epoch = batch / plan_.batches_per_epoch, position = batch % plan_.batches_per_epoch;
  const double weight = 1.0 / plan_.live_slots(position);
  const auto key = sharding::epoch_key(seed_, epoch);
  std::vector<Sample> samples;
  for (const int64_t index : plan_.slots_of(rank)) {
    if (position >= plan_.slots[index].samples) continue;
    const auto [entry, part, round] = plan_.sample_at(index, position, key);
    const auto left = random_bits({seed_, random_stream::segments, entry, part, epoch, round});
    samples.push_back({entry, weight, choose(store.get(entry), entry, epoch, round), part, left,
                       batch * std::ssize(plan_.slots) + index});
  }
  return samples;
}

}  // namespace foretime::worker
