#include "sharding/shard_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/counter_random.h"
#include "sharding/partition.h"

namespace foretime::sharding {
namespace {

/// Indices by decreasing weight; equal weights keep their order.
template <class Weight>
std::vector<int64_t> heaviest_first(int64_t count, Weight&& weight) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return weight(a) > weight(b); });
  return order;
}

void sort_unique(std::vector<int64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// A part of a training group, and how many of its draws are dealt.
struct Piece {
  int64_t entry;
  int64_t part;
  double draw_cost;
  int64_t draws;
  int64_t dealt = 0;
};

/// By decreasing cost of a draw.
std::vector<Piece> sorted_pieces(const Catalogue& catalogue) {
  std::vector<Piece> pieces;
  for (const int64_t g : catalogue.with_role(Role::train)) {
    const auto& entry = catalogue.entries[static_cast<size_t>(g)];
    for (int64_t part = 0; part < entry.parts && entry.draws > 0; ++part)
      pieces.push_back({g, part, entry.draw_cost, entry.draws});
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.draw_cost > b.draw_cost; });
  return pieces;
}

/// Batches that the next lanes.size() pieces fill. What is left at the end, too little for a batch, is a band of its
/// own: which lanes idle in the last batch is then part of what is balanced.
int64_t band_height(const std::vector<Piece>& pieces, size_t next, int64_t lanes) {
  int64_t draws = 0;
  const size_t end = std::min(pieces.size(), next + static_cast<size_t>(lanes));
  for (size_t i = next; i < end; ++i) draws += pieces[i].draws - pieces[i].dealt;
  return std::max<int64_t>(1, end == pieces.size() ? draws / lanes : (draws + lanes / 2) / lanes);
}

/// Fills plan.lanes and plan.bands.
void deal_draws(const Catalogue& catalogue, int64_t lane_count, ShardPlan& plan) {
  auto pieces = sorted_pieces(catalogue);
  plan.lanes.resize(static_cast<size_t>(lane_count));
  for (auto& lane : plan.lanes) lane.band_ptr = {0};
  plan.bands = {0};
  int64_t left = 0;
  for (const auto& piece : pieces) left += piece.draws;
  size_t next = 0;
  while (left > 0) {
    const int64_t height = band_height(pieces, next, lane_count);
    const int64_t total = std::min(left, height * lane_count);
    for (int64_t l = 0; l < lane_count; ++l) {
      auto& lane = plan.lanes[static_cast<size_t>(l)];
      for (int64_t want = total * (l + 1) / lane_count - total * l / lane_count; want > 0;) {
        auto& piece = pieces[next];
        const int64_t count = std::min(want, piece.draws - piece.dealt);
        lane.shares.push_back({piece.entry, piece.part, piece.dealt, count});
        lane.draws += count;
        lane.cost += piece.draw_cost * static_cast<double>(count);
        want -= count;
        if ((piece.dealt += count) == piece.draws) ++next;
      }
      lane.band_ptr.push_back(static_cast<int64_t>(lane.shares.size()));
    }
    plan.bands.push_back(plan.bands.back() + (total + lane_count - 1) / lane_count);
    left -= total;
  }
}

/// Merges bands from the heaviest on, but not the short batch at the end. A band's heaviest draw is the first of the
/// first lane that has one.
void merge_bands(const Catalogue& catalogue, double slack, ShardPlan& plan) {
  const size_t bands = plan.bands.size() - 1;
  std::vector<double> heaviest(bands);
  for (const auto& lane : plan.lanes) {
    for (size_t b = 0; b < bands; ++b) {
      for (int64_t s = lane.band_ptr[b]; s < lane.band_ptr[b + 1]; ++s) {
        const auto entry = static_cast<size_t>(lane.shares[static_cast<size_t>(s)].entry);
        heaviest[b] = std::max(heaviest[b], catalogue.entries[entry].draw_cost);
      }
    }
  }
  std::vector<size_t> kept = {0};  // first bands of the merged ones
  int64_t draws = 0;
  for (const auto& lane : plan.lanes) draws += lane.draws;
  const bool short_end = draws % static_cast<int64_t>(plan.lanes.size()) != 0;
  double apart = 0;
  for (size_t b = 0; b < bands; ++b) {
    apart += heaviest[b] * static_cast<double>(plan.bands[b + 1] - plan.bands[b]);
    const double merged = heaviest[kept.back()] * static_cast<double>(plan.bands[b + 1] - plan.bands[kept.back()]);
    if (b > kept.back() && (merged > (1 + slack) * apart || (short_end && b + 1 == bands))) {
      kept.push_back(b);
      apart = heaviest[b] * static_cast<double>(plan.bands[b + 1] - plan.bands[b]);
    }
  }
  kept.push_back(bands);
  const auto pick = [&](const std::vector<int64_t>& from) {
    std::vector<int64_t> picked;
    for (const size_t b : kept) picked.push_back(from[b]);
    return picked;
  };
  if (bands == 0) return;
  plan.bands = pick(plan.bands);
  for (auto& lane : plan.lanes) lane.band_ptr = pick(lane.band_ptr);
}

/// [lanes][bands]
std::vector<std::vector<double>> band_costs(const Catalogue& catalogue, const ShardPlan& plan) {
  std::vector<std::vector<double>> costs;
  for (const auto& lane : plan.lanes) {
    auto& own = costs.emplace_back(plan.bands.size() - 1);
    for (size_t b = 0; b < own.size(); ++b) {
      for (int64_t s = lane.band_ptr[b]; s < lane.band_ptr[b + 1]; ++s) {
        const auto& share = lane.shares[static_cast<size_t>(s)];
        own[b] += catalogue.entries[static_cast<size_t>(share.entry)].draw_cost * static_cast<double>(share.count);
      }
    }
  }
  return costs;
}

std::vector<std::vector<int>> deal_evaluation(const Catalogue& catalogue, const ShardPlan& plan, int ranks) {
  std::map<std::pair<int64_t, int64_t>, std::vector<int>> trainers;  // of (entry, part)
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (const auto& share : plan.lanes[lane].shares)
      trainers[{share.entry, share.part}].push_back(plan.lane_rank[lane]);
  }
  std::vector<std::vector<int>> owner(catalogue.entries.size());
  std::vector<double> training(static_cast<size_t>(ranks)), others(static_cast<size_t>(ranks));
  const auto entry_of = [&](int64_t e) -> const CatalogueEntry& { return catalogue.entries[static_cast<size_t>(e)]; };
  for (const int64_t e : heaviest_first(static_cast<int64_t>(catalogue.entries.size()),
                                        [&](int64_t i) { return entry_of(i).draw_cost; })) {
    for (int64_t part = 0; part < entry_of(e).parts; ++part) {
      const auto found = trainers.find({e, part});
      auto& cost = found == trainers.end() ? others : training;
      int best = 0;
      if (found == trainers.end()) {
        best = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
      } else {
        best = *std::min_element(found->second.begin(), found->second.end(), [&](int a, int b) {
          return std::pair(cost[static_cast<size_t>(a)], a) < std::pair(cost[static_cast<size_t>(b)], b);
        });
      }
      cost[static_cast<size_t>(best)] += entry_of(e).draw_cost;
      owner[static_cast<size_t>(e)].push_back(best);
    }
  }
  return owner;
}

}  // namespace

uint64_t epoch_key(uint64_t seed, int64_t epoch) {
  return random_bits({seed, random_stream::batch_order, static_cast<uint64_t>(epoch)});
}

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
  // The last batch may be short, so it stays last.
  int64_t batch = position;
  if (position + 1 < batches_per_epoch) {
    const KeyedPermutation batches(static_cast<uint64_t>(batches_per_epoch - 1), key);
    batch = static_cast<int64_t>(batches(static_cast<uint64_t>(position)));
  }
  const auto band = static_cast<size_t>(std::upper_bound(bands.begin(), bands.end(), batch) - bands.begin() - 1);
  const auto first = own.shares.begin() + own.band_ptr[band], end = own.shares.begin() + own.band_ptr[band + 1];
  const auto draws = std::accumulate(first, end, int64_t{0}, [](int64_t sum, const auto& s) { return sum + s.count; });
  const KeyedPermutation order(static_cast<uint64_t>(draws), random_bits({key, static_cast<uint64_t>(lane), band}));
  auto index = static_cast<int64_t>(order(static_cast<uint64_t>(batch - bands[band])));
  auto share = first;
  for (; index >= share->count; ++share) index -= share->count;
  return {share->entry, share->part, share->first + index};
}

int64_t ShardPlan::live_lanes(int64_t position) const {
  return std::count_if(lanes.begin(), lanes.end(), [&](const Lane& lane) { return position < lane.draws; });
}

ShardPlan make_shard_plan(const Catalogue& catalogue, int64_t lane_count, int ranks, double mix_slack) {
  ShardPlan plan;
  deal_draws(catalogue, lane_count, plan);
  merge_bands(catalogue, mix_slack, plan);
  plan.batches_per_epoch = plan.bands.back();
  plan.lane_rank = deal_lanes(band_costs(catalogue, plan), ranks);
  plan.eval_parts = deal_evaluation(catalogue, plan, ranks);
  std::vector<double> cost(static_cast<size_t>(ranks));
  double total = 0;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    cost[static_cast<size_t>(plan.lane_rank[lane])] += plan.lanes[lane].cost;
    total += plan.lanes[lane].cost;
  }
  if (total > 0) plan.imbalance = *std::max_element(cost.begin(), cost.end()) / (total / ranks) - 1;
  return plan;
}

ShardPlan make_shard_plan(const Catalogue& catalogue, const configs::Settings& settings, int ranks) {
  return make_shard_plan(catalogue, settings.sampler.groups_per_batch, ranks, settings.shard.mix_slack);
}

}  // namespace foretime::sharding
