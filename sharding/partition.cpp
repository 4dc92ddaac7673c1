#include "sharding/partition.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace foretime::sharding {
namespace {

constexpr double kEnough = 1.001;          // largest loads over the mean that are not worth an exchange
constexpr int64_t kOperations = 40000000;  // some tenths of a second
constexpr double kNone = 1e-9;             // samples in a batch
constexpr int64_t kPower = 16;             // operations for one evaluation of a shared cost

using Costs = std::vector<double>;  // [buckets]

double sum_of(const Costs& costs) { return std::accumulate(costs.begin(), costs.end(), 0.0); }

/// All slots of one rank.
struct Held {
  Costs load{};
  std::map<size_t, double> shared{};  // samples of groups in a batch
  std::vector<size_t> slots{};
  double samples(size_t group) const {
    const auto found = shared.find(group);
    return found == shared.end() ? 0 : found->second;
  }
};

class Partition {
 public:
  Partition(const Work& work, int ranks)
      : work_(work),
        buckets_(work.slots.empty() ? 0 : work.slots.front().costs.size()),
        owner_(work.slots.size()),
        held_(ranks, Held{.load = Costs(buckets_)}),
        nothing_{.costs = Costs(buckets_)},
        change_from_(buckets_),
        change_to_(buckets_) {
    Held all{.load = Costs(buckets_)};
    for (const auto& slot : work_.slots) {
      add(slot, 1, all);
      auto& cost = cost_.emplace_back(sum_of(slot.costs));
      for (const auto& [group, count] : slot.shared) cost += work_.groups[group].of(count);
    }
    mean_ = std::move(all.load);
    for (double& mean : mean_) mean /= ranks;
    scale_ = 1 / std::max(1e-300, *std::ranges::max_element(cost_));
  }

  void assign_by_cost() {
    std::vector<double> total(held_.size());
    for (const size_t slot : heaviest_first(cost_.size(), [&](size_t i) { return cost_[i]; })) {
      const size_t rank = std::ranges::min_element(total) - total.begin();
      total[rank] += cost_[slot];
      hand_over(slot, rank);
    }
  }

  void assign(const std::vector<int>& ranks) {
    for (size_t slot = 0; slot < ranks.size(); ++slot) hand_over(slot, ranks[slot]);
  }

  void assign_by_group() {
    std::map<size_t, std::vector<size_t>> by_group;  // slots by the group that costs them most; those without one alone
    for (size_t slot = 0; slot < work_.slots.size(); ++slot) {
      const auto& shared = work_.slots[slot].shared;
      const auto dearest = std::ranges::max_element(
          shared, {}, [&](const auto& samples) { return work_.groups[samples.group].of(samples.count); });
      by_group[dearest == shared.end() ? work_.groups.size() + slot : dearest->group].push_back(slot);
    }
    std::vector<std::vector<size_t>> groups;
    std::vector<double> cost;
    for (auto& [group, slots] : by_group) {
      cost.push_back(fill(slots, 0, 1e300).cost);
      groups.push_back(std::move(slots));
    }
    std::vector<std::vector<size_t>> sorted;
    for (const size_t i : heaviest_first(cost.size(), [&](size_t i) { return cost[i]; }))
      sorted.push_back(std::move(groups[i]));
    double low = std::max(sum_of(mean_), *std::ranges::max_element(cost_)),
           high = std::accumulate(cost.begin(), cost.end(), 0.0);
    auto best = pack(sorted, high);
    for (int i = 0; i < 24 && high > kEnough * low; ++i) {
      const double middle = std::sqrt(low * high);
      if (auto found = pack(sorted, middle)) {
        best = std::move(found);
        high = middle;
      } else {
        low = middle;
      }
    }
    for (size_t slot = 0; slot < best->size(); ++slot) hand_over(slot, (*best)[slot]);
  }

  void exchange() {
    std::vector<bool> settled(held_.size());
    while (operations_ < kOperations && slowest() > kEnough * sum_of(mean_)) {
      const auto rank = furthest_above_mean(settled);
      if (rank == held_.size()) return;
      if (improve(rank)) std::fill(settled.begin(), settled.end(), false);
      else settled[rank] = true;
    }
  }

  /// Sum over buckets of the largest load.
  double slowest() {
    operations_ += held_.size() * buckets_;
    double sum = 0;
    for (size_t b = 0; b < buckets_; ++b) {
      double most = 0;
      for (const auto& held : held_) most = std::max(most, held.load[b]);
      sum += most;
    }
    return sum;
  }

  const std::vector<int>& owner() const { return owner_; }

 private:
  void hand_over(size_t slot, size_t rank) {
    held_[rank].slots.push_back(slot);
    owner_[slot] = rank;
    add(work_.slots[slot], 1, held_[rank]);
  }

  /// `sign` 1 adds a slot, -1 takes it away.
  void add(const SlotWork& slot, int sign, Held& held) const {
    for (size_t b = 0; b < buckets_; ++b) held.load[b] += sign * slot.costs[b];
    for (const auto& [group, count] : slot.shared) {
      const auto& shared = work_.groups[group];
      double& samples = held.shared[group];
      held.load[shared.bucket] -= shared.of(samples);
      samples += sign * count;
      if (samples < kNone) {
        held.shared.erase(group);
        continue;
      }
      held.load[shared.bucket] += shared.of(samples);
    }
  }

  void take_away(size_t slot) {
    auto& held = held_[owner_[slot]];
    std::erase(held.slots, slot);
    add(work_.slots[slot], -1, held);
  }

  struct Filled {
    size_t count = 0;  // number of slots
    double cost = 0;
  };
  /// The first of `slots` from `first` on whose cost together is at most `most`.
  Filled fill(const std::vector<size_t>& slots, size_t first, double most) const {
    Held held{.load = Costs(buckets_)};
    Filled filled;
    for (size_t i = first; i < slots.size(); ++i) {
      add(work_.slots[slots[i]], 1, held);
      const double cost = sum_of(held.load);
      if (cost > most) break;
      filled = {i + 1 - first, cost};
    }
    return filled;
  }

  /// Each slot's rank, no rank above `most` in all; nothing where this does not find a way.
  std::optional<std::vector<size_t>> pack(const std::vector<std::vector<size_t>>& groups, double most) const {
    std::vector<size_t> rank_of(owner_.size());
    std::vector<double> load(held_.size());
    size_t fresh = 0;
    for (const auto& slots : groups) {
      for (size_t first = 0; first < slots.size();) {
        const auto filled = fill(slots, first, most);
        if (filled.count == 0) return std::nullopt;
        size_t rank = fresh;
        size_t count = filled.count;
        if (first + count == slots.size()) {  // the fullest rank that has room for all that is left
          double fullest = -1;
          for (size_t r = 0; r < fresh; ++r) {
            if (load[r] + filled.cost > most || load[r] <= fullest) continue;
            fullest = load[r];
            rank = r;
          }
        }
        double cost = filled.cost;
        if (rank == load.size()) {  // none is left: as much as the rank with most room takes
          rank = std::ranges::min_element(load) - load.begin();
          const auto some = fill(slots, first, most - load[rank]);
          if (some.count == 0) return std::nullopt;
          count = some.count;
          cost = some.cost;
        }
        if (rank == fresh) ++fresh;
        load[rank] += cost;
        for (size_t i = 0; i < count; ++i) rank_of[slots[first + i]] = rank;
        first += count;
      }
    }
    return rank_of;
  }

  size_t furthest_above_mean(const std::vector<bool>& settled) {
    operations_ += held_.size() * buckets_;
    size_t found = held_.size();
    double most = 0;
    for (size_t r = 0; r < held_.size(); ++r) {
      if (settled[r]) continue;
      double above = 0;
      for (size_t b = 0; b < buckets_; ++b) above += std::max(0.0, held_[r].load[b] - mean_[b]);
      if (above > most) {
        most = above;
        found = r;
      }
    }
    return found;
  }

  /// Returns the 16th power of a load. If samples share states, a sum of squares would favour few ranks.
  double steep(double load) const {
    const double squared = load * load * scale_ * scale_, fourth = squared * squared;
    return fourth * fourth * fourth * fourth;
  }

  /// Change of what an exchange makes less, if `give` leaves rank `from` and `take` comes back from rank `to`: the sum
  /// of squares, halved, or `steep`.
  double change(const SlotWork& give, const SlotWork& take, const Held& from, const Held& to) {
    operations_ += buckets_;
    double sum = 0;
    if (work_.groups.empty()) {
      for (size_t b = 0; b < buckets_; ++b) {
        const double moved = give.costs[b] - take.costs[b];
        sum += moved * (to.load[b] - from.load[b] + moved);
      }
      return sum;
    }
    for (size_t b = 0; b < buckets_; ++b) {
      change_to_[b] = give.costs[b] - take.costs[b];
      change_from_[b] = -change_to_[b];
    }
    const auto move = [&](size_t group, double count) {
      operations_ += kPower;
      const auto& shared = work_.groups[group];
      const double here = from.samples(group), there = to.samples(group);
      change_from_[shared.bucket] += shared.of(std::max(0.0, here - count)) - shared.of(here);
      change_to_[shared.bucket] += shared.of(std::max(0.0, there + count)) - shared.of(there);
    };
    const auto count_in = [](const SlotWork& slot, size_t group) {
      for (const auto& samples : slot.shared)
        if (samples.group == group) return samples.count;
      return 0.0;
    };
    for (const auto& [group, count] : give.shared) {
      const double net = count - count_in(take, group);
      if (net != 0) move(group, net);
    }
    for (const auto& [group, count] : take.shared)
      if (count_in(give, group) == 0) move(group, -count);
    for (size_t b = 0; b < buckets_; ++b)
      sum += steep(from.load[b] + change_from_[b]) - steep(from.load[b]) + steep(to.load[b] + change_to_[b]) -
             steep(to.load[b]);
    return sum;
  }

  /// Makes the best exchange of one slot of `rank`. False where none helps.
  bool improve(size_t rank) {
    double best = work_.groups.empty() ? 0 : -1e-9;
    for (size_t b = 0; b < buckets_ && work_.groups.empty(); ++b) best -= 1e-9 * mean_[b] * mean_[b];
    size_t give = 0, receiver = held_.size(), take = 0;
    const auto& own = held_[rank].slots;
    for (size_t r = 0; r < held_.size() && operations_ < kOperations; ++r) {
      if (r == rank) continue;
      const auto& others = held_[r].slots;
      for (size_t i = 0; i < own.size(); ++i) {
        for (size_t j = 0; j <= others.size(); ++j) {  // the last j: nothing comes back
          const auto& back = j < others.size() ? work_.slots[others[j]] : nothing_;
          const double value = change(work_.slots[own[i]], back, held_[rank], held_[r]);
          if (value < best) {
            best = value;
            give = i, receiver = r, take = j;
          }
        }
      }
    }
    if (receiver == held_.size()) return false;
    const size_t given = own[give];
    const bool swaps = take < held_[receiver].slots.size();
    const size_t taken = swaps ? held_[receiver].slots[take] : 0;
    take_away(given);
    if (swaps) {
      take_away(taken);
      hand_over(taken, rank);
    }
    hand_over(given, receiver);
    return true;
  }

  const Work& work_;
  size_t buckets_;
  std::vector<int> owner_;    // [slots]
  std::vector<double> cost_;  // [slots] alone on a rank
  std::vector<Held> held_;    // [ranks]
  Costs mean_;                // lower bound of any rank's load: the cost of all slots on one rank / ranks
  SlotWork nothing_;
  Costs change_from_, change_to_;
  double scale_ = 1;  // 1 over the dearest slot's cost
  int64_t operations_ = 0;
};

/// Returns `work` without sharing of states.
Work apart(const Work& work) {
  Work found{.slots = work.slots};
  for (auto& slot : found.slots)
    for (const auto& [group, count] : std::exchange(slot.shared, {}))
      slot.costs[work.groups[group].bucket] += work.groups[group].cost * count;
  return found;
}

}  // namespace

double SharedGroup::of(double samples) const { return cost * (samples <= 1 ? samples : std::pow(samples, exponent)); }

std::vector<int> partition_slots(const Work& work, int ranks) {
  if (work.slots.empty()) return {};
  const Work summed = apart(work);
  Partition by_cost(summed, ranks);
  by_cost.assign_by_cost();
  by_cost.exchange();
  if (work.groups.empty() || ranks == 1) return by_cost.owner();
  Partition by_group(work, ranks), other(work, ranks);
  by_group.assign_by_group();
  other.assign(by_cost.owner());
  auto best = by_cost.owner();
  double least = other.slowest();
  for (auto* partition : {&by_group, &other}) {
    for (const bool exchanged : {false, true}) {
      if (exchanged) partition->exchange();
      if (partition->slowest() >= least) continue;
      least = partition->slowest();
      best = partition->owner();
    }
  }
  return best;
}

}  // namespace foretime::sharding
