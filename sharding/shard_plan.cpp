#include "sharding/shard_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/counter_random.h"

namespace foretime::sharding {
namespace {

constexpr double kEnough = 1.001;          // largest loads over the mean that are not worth an exchange
constexpr int64_t kOperations = 40000000;  // some tenths of a second

/// 0 … count - 1 by decreasing weight; equal weights keep their order.
template <class Weight>
std::vector<size_t> heaviest_first(size_t count, Weight&& weight) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), weight);
  return order;
}

using Costs = std::vector<double>;  // [buckets]

double sum_of(const Costs& costs) { return std::accumulate(costs.begin(), costs.end(), 0.0); }

class Partition {
 public:
  Partition(const std::vector<Costs>& slots, int ranks)
      : slots_(slots),
        buckets_(slots.empty() ? 0 : slots.front().size()),
        owner_(slots.size()),
        held_(static_cast<size_t>(ranks)),
        load_(static_cast<size_t>(ranks), Costs(buckets_)),
        mean_(buckets_),
        nothing_(buckets_) {
    for (const auto& slot : slots_) {
      for (size_t b = 0; b < buckets_; ++b) mean_[b] += slot[b] / ranks;
    }
  }

  void assign_by_cost() {
    std::vector<double> cost, total(held_.size());
    for (const auto& slot : slots_) cost.push_back(sum_of(slot));
    for (const size_t slot : heaviest_first(cost.size(), [&](size_t i) { return cost[i]; })) {
      const auto rank = static_cast<size_t>(std::ranges::min_element(total) - total.begin());
      total[rank] += cost[slot];
      hand_over(slot, rank);
    }
  }

  void exchange() {
    std::vector<bool> settled(held_.size());
    while (operations_ < kOperations && slowest() > kEnough * sum_of(mean_)) {
      const auto rank = furthest_above_mean(settled);
      if (rank == held_.size()) return;
      if (improve(rank))
        std::fill(settled.begin(), settled.end(), false);
      else
        settled[rank] = true;
    }
  }

  const std::vector<int>& owner() const { return owner_; }

 private:
  void hand_over(size_t slot, size_t rank) {
    held_[rank].push_back(slot);
    owner_[slot] = static_cast<int>(rank);
    for (size_t b = 0; b < buckets_; ++b) load_[rank][b] += slots_[slot][b];
  }

  void take_away(size_t slot) {
    const auto rank = static_cast<size_t>(owner_[slot]);
    std::erase(held_[rank], slot);
    for (size_t b = 0; b < buckets_; ++b) load_[rank][b] -= slots_[slot][b];
  }

  /// Sum over buckets of the largest load.
  double slowest() {
    operations_ += static_cast<int64_t>(load_.size() * buckets_);
    double sum = 0;
    for (size_t b = 0; b < buckets_; ++b) {
      double most = 0;
      for (const auto& load : load_) most = std::max(most, load[b]);
      sum += most;
    }
    return sum;
  }

  size_t furthest_above_mean(const std::vector<bool>& settled) {
    operations_ += static_cast<int64_t>(load_.size() * buckets_);
    size_t found = load_.size();
    double most = 0;
    for (size_t r = 0; r < load_.size(); ++r) {
      if (settled[r]) continue;
      double above = 0;
      for (size_t b = 0; b < buckets_; ++b) above += std::max(0.0, load_[r][b] - mean_[b]);
      if (above > most) {
        most = above;
        found = r;
      }
    }
    return found;
  }

  /// Change of the sum of squares, halved, if `give` leaves rank `from` and `take` comes back from rank `to`.
  double change(const Costs& give, const Costs& take, const Costs& from, const Costs& to) {
    operations_ += static_cast<int64_t>(buckets_);
    double sum = 0;
    for (size_t b = 0; b < buckets_; ++b) {
      const double moved = give[b] - take[b];
      sum += moved * (to[b] - from[b] + moved);
    }
    return sum;
  }

  /// Makes the best exchange of one slot of `rank`. False where none helps.
  bool improve(size_t rank) {
    double best = 0;
    for (size_t b = 0; b < buckets_; ++b) best -= 1e-9 * mean_[b] * mean_[b];
    size_t give = 0, receiver = held_.size(), take = 0;
    for (size_t r = 0; r < held_.size(); ++r) {
      if (r == rank) continue;
      for (size_t i = 0; i < held_[rank].size(); ++i) {
        for (size_t j = 0; j <= held_[r].size(); ++j) {  // the last j: nothing comes back
          const auto& back = j < held_[r].size() ? slots_[held_[r][j]] : nothing_;
          const double value = change(slots_[held_[rank][i]], back, load_[rank], load_[r]);
          if (value < best) {
            best = value;
            give = i, receiver = r, take = j;
          }
        }
      }
    }
    if (receiver == held_.size()) return false;
    const size_t given = held_[rank][give];
    const bool swaps = take < held_[receiver].size();
    const size_t taken = swaps ? held_[receiver][take] : 0;
    take_away(given);
    if (swaps) {
      take_away(taken);
      hand_over(taken, rank);
    }
    hand_over(given, receiver);
    return true;
  }

  const std::vector<Costs>& slots_;
  size_t buckets_;
  std::vector<int> owner_;                 // [slots]
  std::vector<std::vector<size_t>> held_;  // [ranks] their slots
  std::vector<Costs> load_;                // [ranks][buckets]
  Costs mean_, nothing_;
  int64_t operations_ = 0;
};

}  // namespace

std::vector<int> partition_slots(const std::vector<std::vector<double>>& costs, int ranks) {
  Partition partition(costs, ranks);
  partition.assign_by_cost();
  partition.exchange();
  return partition.owner();
}

namespace {

/// A part of a training group, and how many of its samples are assigned.
struct Piece {
  int64_t entry;
  int64_t part;
  double sample_cost;
  int64_t samples;
  int64_t assigned = 0;
};

/// By decreasing cost of a sample.
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
  const size_t end = std::min(pieces.size(), next + static_cast<size_t>(slots));
  for (size_t i = next; i < end; ++i) samples += pieces[i].samples - pieces[i].assigned;
  return std::max<int64_t>(1, end == pieces.size() ? samples / slots : (samples + slots / 2) / slots);
}

/// Fills plan.slots and plan.buckets.
void deal_samples(const DatasetIndex& dataset, int64_t slot_count, ShardPlan& plan) {
  auto pieces = sorted_pieces(dataset);
  plan.slots.resize(static_cast<size_t>(slot_count));
  for (auto& slot : plan.slots) slot.bucket_ptr = {0};
  plan.buckets = {0};
  int64_t left = 0;
  for (const auto& piece : pieces) left += piece.samples;
  size_t next = 0;
  while (left > 0) {
    const int64_t height = bucket_height(pieces, next, slot_count);
    const int64_t total = std::min(left, height * slot_count);
    for (int64_t l = 0; l < slot_count; ++l) {
      auto& slot = plan.slots[static_cast<size_t>(l)];
      for (int64_t want = total * (l + 1) / slot_count - total * l / slot_count; want > 0;) {
        auto& piece = pieces[next];
        const int64_t count = std::min(want, piece.samples - piece.assigned);
        slot.shares.push_back({piece.entry, piece.part, piece.assigned, count});
        slot.samples += count;
        slot.cost += piece.sample_cost * static_cast<double>(count);
        want -= count;
        if ((piece.assigned += count) == piece.samples) ++next;
      }
      slot.bucket_ptr.push_back(static_cast<int64_t>(slot.shares.size()));
    }
    plan.buckets.push_back(plan.buckets.back() + (total + slot_count - 1) / slot_count);
    left -= total;
  }
}

/// Merges buckets from the heaviest on, but not the short batch at the end. A bucket's heaviest sample is the first of
/// the first slot that has one.
void merge_buckets(const DatasetIndex& dataset, double slack, ShardPlan& plan) {
  const size_t buckets = plan.buckets.size() - 1;
  std::vector<double> heaviest(buckets);
  for (const auto& slot : plan.slots) {
    for (size_t b = 0; b < buckets; ++b) {
      for (const auto& share : slot.in_bucket(b)) heaviest[b] = std::max(heaviest[b], dataset[share.entry].sample_cost);
    }
  }
  std::vector<size_t> kept = {0};  // first buckets of the merged ones
  int64_t samples = 0;
  for (const auto& slot : plan.slots) samples += slot.samples;
  const bool short_end = samples % static_cast<int64_t>(plan.slots.size()) != 0;
  double apart = 0;
  for (size_t b = 0; b < buckets; ++b) {
    apart += heaviest[b] * static_cast<double>(plan.buckets[b + 1] - plan.buckets[b]);
    const double merged = heaviest[kept.back()] * static_cast<double>(plan.buckets[b + 1] - plan.buckets[kept.back()]);
    if (b > kept.back() && (merged > (1 + slack) * apart || (short_end && b + 1 == buckets))) {
      kept.push_back(b);
      apart = heaviest[b] * static_cast<double>(plan.buckets[b + 1] - plan.buckets[b]);
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

/// [slots][buckets]
std::vector<std::vector<double>> bucket_costs(const DatasetIndex& dataset, const ShardPlan& plan) {
  std::vector<std::vector<double>> costs;
  for (const auto& slot : plan.slots) {
    auto& own = costs.emplace_back(plan.buckets.size() - 1);
    for (size_t b = 0; b < own.size(); ++b) {
      for (const auto& share : slot.in_bucket(b))
        own[b] += dataset[share.entry].sample_cost * static_cast<double>(share.count);
    }
  }
  return costs;
}

std::vector<std::vector<int>> deal_evaluation(const DatasetIndex& dataset, const ShardPlan& plan, int ranks) {
  const auto trainers = plan.trainers();
  std::vector<std::vector<int>> owner(dataset.entries.size());
  std::vector<double> training(static_cast<size_t>(ranks)), others(static_cast<size_t>(ranks));
  const auto cost_of = [&](size_t e) { return dataset.entries[e].sample_cost; };
  for (const size_t e : heaviest_first(owner.size(), cost_of)) {
    for (int64_t part = 0; part < dataset.entries[e].parts; ++part) {
      const auto found = trainers.find({static_cast<int64_t>(e), part});
      auto& cost = found == trainers.end() ? others : training;
      const auto load = [&](int rank) { return cost[static_cast<size_t>(rank)]; };
      const int best = found == trainers.end() ? static_cast<int>(std::ranges::min_element(cost) - cost.begin())
                                               : *std::ranges::min_element(found->second, {}, load);
      cost[static_cast<size_t>(best)] += cost_of(e);
      owner[e].push_back(best);
    }
  }
  return owner;
}

}  // namespace

uint64_t epoch_key(uint64_t seed, int64_t epoch) {
  return random_bits({seed, random_stream::batch_order, static_cast<uint64_t>(epoch)});
}

std::vector<int64_t> ShardPlan::slots_of(int rank) const {
  std::vector<int64_t> found;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (slot_rank[slot] == rank) found.push_back(static_cast<int64_t>(slot));
  }
  return found;
}

std::map<std::pair<int64_t, int64_t>, std::set<int>> ShardPlan::trainers() const {
  std::map<std::pair<int64_t, int64_t>, std::set<int>> found;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    for (const auto& share : slots[slot].shares) found[{share.entry, share.part}].insert(slot_rank[slot]);
  }
  return found;
}

std::vector<int64_t> ShardPlan::entries_of(int rank) const {
  std::vector<int64_t> found;
  for (const int64_t slot : slots_of(rank)) {
    for (const auto& share : slots[static_cast<size_t>(slot)].shares) found.push_back(share.entry);
  }
  for (size_t entry = 0; entry < eval_parts.size(); ++entry) {
    if (std::ranges::find(eval_parts[entry], rank) != eval_parts[entry].end())
      found.push_back(static_cast<int64_t>(entry));
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

PlannedSample ShardPlan::sample_at(int64_t slot, int64_t position, uint64_t key) const {
  const auto& own = slots[static_cast<size_t>(slot)];
  // The last batch may be short, so it stays last.
  int64_t batch = position;
  if (position + 1 < batches_per_epoch) {
    const KeyedPermutation batches(static_cast<uint64_t>(batches_per_epoch - 1), key);
    batch = static_cast<int64_t>(batches(static_cast<uint64_t>(position)));
  }
  const auto bucket = static_cast<size_t>(std::ranges::upper_bound(buckets, batch) - buckets.begin() - 1);
  const auto shares = own.in_bucket(bucket);
  int64_t samples = 0;
  for (const auto& share : shares) samples += share.count;
  const KeyedPermutation order(static_cast<uint64_t>(samples), random_bits({key, static_cast<uint64_t>(slot), bucket}));
  auto index = static_cast<int64_t>(order(static_cast<uint64_t>(batch - buckets[bucket])));
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
  plan.slot_rank = partition_slots(bucket_costs(dataset, plan), ranks);
  plan.eval_parts = deal_evaluation(dataset, plan, ranks);
  std::vector<double> cost(static_cast<size_t>(ranks));
  double total = 0;
  for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
    cost[static_cast<size_t>(plan.slot_rank[slot])] += plan.slots[slot].cost;
    total += plan.slots[slot].cost;
  }
  if (total > 0) plan.imbalance = *std::ranges::max_element(cost) / (total / ranks) - 1;
  return plan;
}

ShardPlan make_shard_plan(const DatasetIndex& dataset, const configs::Settings& settings, int ranks) {
  return make_shard_plan(dataset, settings.sampler.groups_per_batch, ranks, settings.shard.mix_slack);
}

}  // namespace foretime::sharding
