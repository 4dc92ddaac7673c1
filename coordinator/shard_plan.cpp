#include "coordinator/shard_plan.h"

#include <algorithm>
#include <numeric>

#include "coordinator/counter_random.h"

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

/// A part of a training group.
struct Piece {
  int64_t entry;
  int64_t part;
};

void sort_unique(std::vector<int64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

std::vector<Lane> deal_draws(const Catalogue& catalogue, int64_t lane_count) {
  std::vector<Piece> pieces;
  int64_t total = 0;
  for (const int64_t g : catalogue.with_role(Role::train)) {
    const auto& entry = catalogue.entries[static_cast<size_t>(g)];
    for (int64_t part = 0; part < entry.parts; ++part) pieces.push_back({g, part});
    total += entry.parts * entry.draws;
  }
  const int64_t room = (total + lane_count - 1) / lane_count;
  const auto entry_of = [&](int64_t i) -> const CatalogueEntry& {
    return catalogue.entries[static_cast<size_t>(pieces[static_cast<size_t>(i)].entry)];
  };

  std::vector<Lane> lanes(static_cast<size_t>(lane_count));
  const auto order = heaviest_first(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    return entry_of(i).draw_cost * static_cast<double>(entry_of(i).draws);
  });
  for (const int64_t i : order) {
    const auto& entry = entry_of(i);
    const auto& piece = pieces[static_cast<size_t>(i)];
    for (int64_t first = 0; first < entry.draws;) {
      Lane* best = nullptr;
      for (auto& lane : lanes) {
        if (lane.draws < room && (best == nullptr || lane.cost < best->cost)) best = &lane;
      }
      const int64_t count = std::min(entry.draws - first, room - best->draws);
      best->shares.push_back({piece.entry, piece.part, first, count});
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

std::vector<std::vector<int>> deal_evaluation(const Catalogue& catalogue, const ShardPlan& plan, int ranks) {
  const auto entry_of = [&](int64_t e) -> const CatalogueEntry& { return catalogue.entries[static_cast<size_t>(e)]; };
  std::vector<std::vector<int>> owner(catalogue.entries.size());
  std::vector<double> cost(static_cast<size_t>(ranks));
  std::vector<std::pair<int64_t, int64_t>> trained;  // (entry, part) of several parts, with…
  std::vector<int> trainer;                          // …a rank
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (const auto& share : plan.lanes[lane].shares) {
      if (entry_of(share.entry).parts == 1) continue;
      trained.emplace_back(share.entry, share.part);
      trainer.push_back(plan.lane_rank[lane]);
    }
  }
  for (const int64_t e : heaviest_first(static_cast<int64_t>(catalogue.entries.size()),
                                        [&](int64_t i) { return entry_of(i).draw_cost; })) {
    for (int64_t part = 0; part < entry_of(e).parts; ++part) {
      int best = -1;
      for (size_t i = 0; i < trained.size(); ++i) {
        if (trained[i] != std::pair(e, part)) continue;
        if (best < 0 || cost[static_cast<size_t>(trainer[i])] < cost[static_cast<size_t>(best)]) best = trainer[i];
      }
      if (best < 0) best = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
      cost[static_cast<size_t>(best)] += entry_of(e).draw_cost;
      owner[static_cast<size_t>(e)].push_back(best);
    }
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
  for (size_t entry = 0; entry < eval_parts.size(); ++entry) {
    if (std::find(eval_parts[entry].begin(), eval_parts[entry].end(), rank) != eval_parts[entry].end())
      found.push_back(static_cast<int64_t>(entry));
  }
  sort_unique(found);
  return found;
}

std::vector<int64_t> ShardPlan::parts_of(int rank, int64_t entry) const {
  std::vector<int64_t> found;
  for (const int64_t lane : lanes_of(rank)) {
    for (const auto& share : lanes[static_cast<size_t>(lane)].shares) {
      if (share.entry == entry) found.push_back(share.part);
    }
  }
  const auto& evaluated = eval_parts[static_cast<size_t>(entry)];
  for (size_t part = 0; part < evaluated.size(); ++part) {
    if (evaluated[part] == rank) found.push_back(static_cast<int64_t>(part));
  }
  sort_unique(found);
  return found;
}

PlannedDraw ShardPlan::draw_at(int64_t lane, int64_t position, uint64_t key) const {
  const auto& own = lanes[static_cast<size_t>(lane)];
  const KeyedPermutation order(static_cast<uint64_t>(own.draws), random_bits({key, static_cast<uint64_t>(lane)}));
  auto index = static_cast<int64_t>(order(static_cast<uint64_t>(position)));
  auto share = own.shares.begin();
  for (; index >= share->count; ++share) index -= share->count;
  return {share->entry, share->part, share->first + index};
}

int64_t ShardPlan::live_lanes(int64_t position) const {
  return std::count_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return position < lane.draws; });
}

ShardPlan make_shard_plan(const Catalogue& catalogue, int64_t lane_count, int ranks) {
  ShardPlan plan;
  plan.lanes = deal_draws(catalogue, lane_count);
  plan.lane_rank = deal_lanes(plan.lanes, ranks);
  plan.eval_parts = deal_evaluation(catalogue, plan, ranks);
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
