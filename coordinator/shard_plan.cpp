#include "coordinator/shard_plan.h"

#include <algorithm>
#include <numeric>

namespace foretime::coordinator {
namespace {

/// Indices by decreasing weight; equal weights keep their order.
template <class Weight>
std::vector<int64_t> heaviest_first(int64_t count, Weight&& weight) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return weight(a) > weight(b); });
  return order;
}

std::vector<Lane> deal_draws(const Catalogue& catalogue, int64_t lane_count) {
  const auto groups = catalogue.with_role(Role::train);
  const auto entry_of = [&](int64_t i) -> const CatalogueEntry& {
    return catalogue.entries[static_cast<size_t>(groups[static_cast<size_t>(i)])];
  };
  int64_t total = 0;
  for (const int64_t g : groups) total += catalogue.entries[static_cast<size_t>(g)].draws;
  const int64_t room = (total + lane_count - 1) / lane_count;

  std::vector<Lane> lanes(static_cast<size_t>(lane_count));
  const auto order = heaviest_first(static_cast<int64_t>(groups.size()), [&](int64_t i) {
    return entry_of(i).draw_cost * static_cast<double>(entry_of(i).draws);
  });
  for (const int64_t i : order) {
    const auto& entry = entry_of(i);
    for (int64_t first = 0; first < entry.draws;) {
      Lane* best = nullptr;
      for (auto& lane : lanes) {
        if (lane.draws < room && (best == nullptr || lane.cost < best->cost)) best = &lane;
      }
      const int64_t count = std::min(entry.draws - first, room - best->draws);
      best->shares.push_back({groups[static_cast<size_t>(i)], first, count});
      best->draws += count;
      best->cost += entry.draw_cost * static_cast<double>(count);
      first += count;
    }
  }
  return lanes;
}

std::vector<int> deal_lanes(const std::vector<Lane>& lanes, int ranks) {
  const auto count = static_cast<int64_t>(lanes.size());
  const int64_t room = (count + ranks - 1) / ranks;
  std::vector<double> cost(static_cast<size_t>(ranks));
  std::vector<int64_t> held(static_cast<size_t>(ranks));
  std::vector<int> owner(lanes.size());
  for (const int64_t lane : heaviest_first(count, [&](int64_t i) { return lanes[static_cast<size_t>(i)].cost; })) {
    size_t best = cost.size();
    for (size_t r = 0; r < cost.size(); ++r) {
      if (held[r] < room && (best == cost.size() || cost[r] < cost[best])) best = r;
    }
    owner[static_cast<size_t>(lane)] = static_cast<int>(best);
    cost[best] += lanes[static_cast<size_t>(lane)].cost;
    ++held[best];
  }
  return owner;
}

std::vector<int> deal_evaluation(const Catalogue& catalogue, int ranks) {
  std::vector<int> owner(catalogue.entries.size());
  std::vector<double> cost(static_cast<size_t>(ranks));
  for (const int64_t i : heaviest_first(static_cast<int64_t>(catalogue.entries.size()), [&](int64_t e) {
         return catalogue.entries[static_cast<size_t>(e)].draw_cost;
       })) {
    const auto best = std::min_element(cost.begin(), cost.end());
    *best += catalogue.entries[static_cast<size_t>(i)].draw_cost;
    owner[static_cast<size_t>(i)] = static_cast<int>(best - cost.begin());
  }
  return owner;
}

}  // namespace

std::vector<int64_t> ShardPlan::lanes_of(int rank) const {
  std::vector<int64_t> found;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lane_rank[lane] == rank) found.push_back(static_cast<int64_t>(lane));
  }
  return found;
}

std::vector<int64_t> ShardPlan::entries_of(int rank) const {
  std::vector<int64_t> found;
  for (const int64_t lane : lanes_of(rank)) {
    for (const auto& share : lanes[static_cast<size_t>(lane)].shares) found.push_back(share.entry);
  }
  for (size_t entry = 0; entry < eval_rank.size(); ++entry) {
    if (eval_rank[entry] == rank) found.push_back(static_cast<int64_t>(entry));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int64_t ShardPlan::live_lanes(int64_t position) const {
  return std::count_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return position < lane.draws; });
}

ShardPlan make_shard_plan(const Catalogue& catalogue, int64_t lane_count, int ranks) {
  ShardPlan plan;
  plan.lanes = deal_draws(catalogue, lane_count);
  plan.lane_rank = deal_lanes(plan.lanes, ranks);
  plan.eval_rank = deal_evaluation(catalogue, ranks);
  std::vector<double> cost(static_cast<size_t>(ranks));
  double total = 0;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    plan.batches_per_epoch = std::max(plan.batches_per_epoch, plan.lanes[lane].draws);
    cost[static_cast<size_t>(plan.lane_rank[lane])] += plan.lanes[lane].cost;
    total += plan.lanes[lane].cost;
  }
  if (total > 0) plan.imbalance = *std::max_element(cost.begin(), cost.end()) / (total / ranks) - 1;
  return plan;
}

}  // namespace foretime::coordinator
