#include "sharding/partition.h"

#include <algorithm>
#include <numeric>

namespace foretime::sharding {
namespace {

constexpr double kEnough = 1.001;          // largest loads over the mean that are not worth an exchange
constexpr int64_t kOperations = 40000000;  // some tenths of a second

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
    std::vector<double> cost;
    for (const auto& slot : slots_) cost.push_back(sum_of(slot));
    std::vector<size_t> order(slots_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cost[a] > cost[b]; });
    std::vector<double> total(held_.size());
    for (const size_t slot : order) {
      const auto rank = static_cast<size_t>(std::min_element(total.begin(), total.end()) - total.begin());
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

}  // namespace foretime::sharding
