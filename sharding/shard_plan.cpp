#include "sharding/shard_plan.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "base/check.h"
#include "base/counter_random.h"
#include "sharding/partition.h"

namespace foretime::sharding {
namespace {

/// A part of a training group, and how many of its samples are assigned.
struct Piece {
  int64_t entry;
  int64_t part;
  double sample_cost;
  int64_t samples;
  int64_t assigned = 0;
};

/// Returns the pieces of all training groups by decreasing cost of a sample.
std::vector<Piece> sorted_pieces(const DatasetIndex& dataset) {
  std::vector<Piece> pieces;
  for (const int64_t g : dataset.with_role(Role::train)) {
    const auto& entry = dataset[g];
    for (int64_t part = 0; part < entry.parts && entry.samples > 0; ++part)
      pieces.push_back({g, part, entry.sample_cost, entry.samples});
  }
  std::ranges::stable_sort(pieces, [](const Piece& a, const Piece& b) { return a.sample_cost > b.sample_cost; });
  return pieces;
}

/// Batches that the next slots.size() pieces fill. What is left at the end, too little for a batch, is a bucket of its
/// own: which slots idle in the last batch is then part of what is balanced.
int64_t bucket_height(const std::vector<Piece>& pieces, size_t next, int64_t slots) {
  int64_t samples = 0;
  const size_t end = std::min(pieces.size(), next + slots);
  for (size_t i = next; i < end; ++i) samples += pieces[i].samples - pieces[i].assigned;
  return std::max<int64_t>(1, end == pieces.size() ? samples / slots : (samples + slots / 2) / slots);
}

/// Holds a number of samples of a piece.
struct Taken {
  size_t piece;
  int64_t count;
};

/// Gives a slot the next samples of a piece.
void give(std::vector<Piece>& pieces, const Taken& taken, BatchSlot& slot) {
  auto& piece = pieces[taken.piece];
  slot.shares.push_back({piece.entry, piece.part, piece.assigned, taken.count});
  slot.samples += taken.count;
  slot.cost += piece.sample_cost * taken.count;
  piece.assigned += taken.count;
}

/// Fills plan.slots and plan.buckets.
void deal_samples(const DatasetIndex& dataset, int64_t slot_count, ShardPlan& plan) {
  auto pieces = sorted_pieces(dataset);
  plan.slots.resize(slot_count);
  for (auto& slot : plan.slots) slot.bucket_ptr = {0};
  plan.buckets = {0};
  int64_t left = 0;
  for (const auto& piece : pieces) left += piece.samples;
  size_t next = 0;
  while (left > 0) {
    const int64_t height = bucket_height(pieces, next, slot_count);
    const int64_t total = std::min(left, height * slot_count);
    std::deque<Taken> taken;
    for (int64_t rest = total; rest > 0;) {
      const int64_t count = std::min(rest, pieces[next].samples - pieces[next].assigned);
      taken.push_back({next, count});
      rest -= count;
      if (rest > 0) ++next;
    }
    int64_t first = 0;
    const auto wanted = [&](int64_t slot) { return total * (slot + 1) / slot_count - total * slot / slot_count; };
    // If samples share states, a piece first fills whole slots: a slot of several groups changes the group in each
    // batch, so that its rank shares no states between batches.
    for (auto& [piece, count] : taken) {
      while (dataset[pieces[piece].entry].sharing < 1 && first < slot_count && wanted(first) > 0 &&
             count >= wanted(first)) {
        const int64_t whole = wanted(first);
        give(pieces, {piece, whole}, plan.slots[first]);
        count -= whole;
        ++first;
      }
    }
    for (int64_t l = first; l < slot_count; ++l) {
      for (int64_t want = wanted(l); want > 0;) {
        while (taken.front().count == 0) taken.pop_front();
        auto& [piece, count] = taken.front();
        const int64_t some = std::min(want, count);
        give(pieces, {piece, some}, plan.slots[l]);
        count -= some;
        want -= some;
      }
    }
    while (next < pieces.size() && pieces[next].assigned == pieces[next].samples) ++next;
    for (auto& slot : plan.slots) slot.bucket_ptr.push_back(slot.shares.size());
    plan.buckets.push_back(plan.buckets.back() + (total + slot_count - 1) / slot_count);
    left -= total;
  }
}

/// Merges buckets from the heaviest on, but not the short batch at the end. A bucket's heaviest sample is the first of
/// the first slot that has one.
void merge_buckets(const DatasetIndex& dataset, double slack, ShardPlan& plan) {
  const size_t buckets = plan.buckets.size() - 1;
  std::vector<double> heaviest(buckets);
  for (const auto& slot : plan.slots)
    for (size_t b = 0; b < buckets; ++b)
      for (const auto& share : slot.in_bucket(b)) heaviest[b] = std::max(heaviest[b], dataset[share.entry].sample_cost);
  std::vector<size_t> kept = {0};  // first buckets of the merged ones
  int64_t samples = 0;
  for (const auto& slot : plan.slots) samples += slot.samples;
  const bool short_end = samples % std::ssize(plan.slots) != 0;
  double apart = 0;
  for (size_t b = 0; b < buckets; ++b) {
    apart += heaviest[b] * (plan.buckets[b + 1] - plan.buckets[b]);
    const double merged = heaviest[kept.back()] * (plan.buckets[b + 1] - plan.buckets[kept.back()]);
    if (b > kept.back() && (merged > (1 + slack) * apart || (short_end && b + 1 == buckets))) {
      kept.push_back(b);
      apart = heaviest[b] * (plan.buckets[b + 1] - plan.buckets[b]);
    }
  }
  kept.push_back(buckets);
  const auto pick = [&](const std::vector<int64_t>& from) {
    std::vector<int64_t> picked;
    for (const size_t b : kept) picked.push_back(from[b]);
    return picked;
  };
  if (buckets == 0) return;
  plan.buckets = pick(plan.buckets);
  for (auto& slot : plan.slots) slot.bucket_ptr = pick(slot.bucket_ptr);
}

Work work_of(const DatasetIndex& dataset, const ShardPlan& plan) {
  Work work;
  work.slots.assign(plan.slots.size(), {.costs = std::vector<double>(plan.buckets.size() - 1)});
  for (size_t b = 0; b + 1 < plan.buckets.size(); ++b) {
    const double batches = plan.buckets[b + 1] - plan.buckets[b];
    std::map<int64_t, std::map<size_t, int64_t>> samples;  // key: entry, then slot
    for (size_t slot = 0; slot < plan.slots.size(); ++slot)
      for (const auto& share : plan.slots[slot].in_bucket(b)) samples[share.entry][slot] += share.count;
    for (const auto& [e, by_slot] : samples) {
      const auto& entry = dataset[e];
      double in_batch = 0;
      for (const auto& [slot, count] : by_slot) in_batch += count / batches;
      const bool shared = entry.sharing < 1 && by_slot.size() > 1 && in_batch > 1;
      for (const auto& [slot, count] : by_slot) {
        if (shared) work.slots[slot].shared.push_back({work.groups.size(), count / batches});
        else work.slots[slot].costs[b] += entry.sample_cost * count;
      }
      if (shared) work.groups.push_back({.bucket = b, .cost = batches * entry.sample_cost, .exponent = entry.sharing});
    }
  }
  return work;
}

/// Returns the cost of an epoch for each rank.
std::vector<double> rank_costs(const DatasetIndex& dataset, const ShardPlan& plan, int ranks) {
  std::vector<double> cost(ranks);
  for (size_t b = 0; b + 1 < plan.buckets.size(); ++b) {
    const double batches = plan.buckets[b + 1] - plan.buckets[b];
    std::map<std::pair<int, int64_t>, double> in_batch;  // samples of each rank and entry
    for (size_t slot = 0; slot < plan.slots.size(); ++slot)
      for (const auto& share : plan.slots[slot].in_bucket(b))
        in_batch[{plan.slot_rank[slot], share.entry}] += share.count / batches;
    for (const auto& [place, samples] : in_batch) cost[place.first] += batches * dataset[place.second].cost_of(samples);
  }
  return cost;
}

std::vector<std::vector<int>> deal_evaluation(const DatasetIndex& dataset, const ShardPlan& plan, int ranks) {
  const auto trainers = plan.trainers();
  std::vector<std::vector<int>> owner(dataset.entries.size());
  std::vector<double> training(ranks), others(ranks);
  const auto cost_of = [&](size_t e) { return dataset.entries[e].sample_cost; };
  for (const size_t e : heaviest_first(owner.size(), cost_of)) {
    for (int64_t part = 0; part < dataset.entries[e].parts; ++part) {
      const auto found = trainers.find({static_cast<int64_t>(e), part});
      auto& cost = found == trainers.end() ? others : training;
      const auto load = [&](int rank) { return cost[rank]; };
      const int best = found == trainers.end() ? static_cast<int>(std::ranges::min_element(cost) - cost.begin())
                                               : *std::ranges::min_element(found->second, {}, load);
      cost[best] += cost_of(e);
      owner[e].push_back(best);
    }
  }
  return owner;
}

}  // namespace

uint64_t epoch_key(uint64_t seed, int64_t epoch) { return random_bits({seed, random_stream::batch_order, epoch}); }

std::vector<int64_t> ShardPlan::slots_of(int rank) const {
  std::vector<int64_t> found;
  for (size_t slot = 0; slot < slots.size(); ++slot)
    if (slot_rank[slot] == rank) found.push_back(slot);
  return found;
}

std::map<std::pair<int64_t, int64_t>, std::set<int>> ShardPlan::trainers() const {
  std::map<std::pair<int64_t, int64_t>, std::set<int>> found;
  for (size_t slot = 0; slot < slots.size(); ++slot)
    for (const auto& share : slots[slot].shares) found[{share.entry, share.part}].insert(slot_rank[slot]);
  return found;
}

std::vector<int64_t> ShardPlan::entries_of(int rank) const {
  std::vector<int64_t> found;
  for (const int64_t slot : slots_of(rank))
    for (const auto& share : slots[slot].shares) found.push_back(share.entry);
  for (size_t entry = 0; entry < eval_parts.size(); ++entry)
    if (std::ranges::find(eval_parts[entry], rank) != eval_parts[entry].end()) found.push_back(entry);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

PlannedSample ShardPlan::sample_at(int64_t slot, int64_t position, uint64_t key) const {
  const auto& own = slots[slot];
  FORETIME_CHECK(position >= 0 && position < own.samples, "batch {}: slot {} has samples in {} batches", position, slot,
                 own.samples);
  // The last batch may be short, so it stays last.
  int64_t batch = position;
  if (position + 1 < batches_per_epoch) {
    const KeyedPermutation batches(batches_per_epoch - 1, key);
    batch = batches(position);
  }
  const size_t bucket = std::ranges::upper_bound(buckets, batch) - buckets.begin() - 1;
  const auto shares = own.in_bucket(bucket);
  int64_t samples = 0;
  for (const auto& share : shares) samples += share.count;
  const KeyedPermutation order(samples, random_bits({key, slot, bucket}));
  int64_t index = order(batch - buckets[bucket]);
  auto share = shares.begin();
  for (; index >= share->count; ++share) index -= share->count;
  return {share->entry, share->part, share->first + index};
}

int64_t ShardPlan::live_slots(int64_t position) const {
  return std::ranges::count_if(slots, [&](const BatchSlot& slot) { return position < slot.samples; });
}

ShardPlan make_shard_plan(const DatasetIndex& dataset, int64_t slot_count, int ranks, double mix_slack) {
  ShardPlan plan;
  deal_samples(dataset, slot_count, plan);
  merge_buckets(dataset, mix_slack, plan);
  plan.batches_per_epoch = plan.buckets.back();
  plan.slot_rank = partition_slots(work_of(dataset, plan), ranks);
  plan.eval_parts = deal_evaluation(dataset, plan, ranks);
  FORETIME_CHECK(plan.slot_rank.size() == plan.slots.size() && plan.eval_parts.size() == dataset.entries.size());
  for (const int rank : plan.slot_rank) FORETIME_CHECK(rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  const auto cost = rank_costs(dataset, plan, ranks);
  const double total = std::accumulate(cost.begin(), cost.end(), 0.0);
  if (total > 0) plan.imbalance = *std::ranges::max_element(cost) / (total / ranks) - 1;
  return plan;
}

ShardPlan make_shard_plan(const DatasetIndex& dataset, const configs::Settings& settings, int ranks) {
  return make_shard_plan(dataset, settings.sampler.groups_per_batch, ranks, settings.shard.mix_slack);
}

}  // namespace foretime::sharding
