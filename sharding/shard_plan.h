#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sharding/dataset_index.h"

/// Who trains on what. Training draws are dealt to *lanes*, one draw a lane and batch; lanes are dealt to ranks. The
/// lanes depend on the catalogue, the batch size and shard.mix_slack alone, so the draws of N ranks are those of one
/// rank, whatever N is.
///
/// Every rank waits for the slowest one in each step, so what counts is the sum over steps of the largest rank's cost,
/// and not the largest sum. Draws are therefore sorted by cost and dealt in *bands* of batches: the heaviest pieces,
/// one to a lane, come together in the first band, the next ones in the second, always in the same order of lanes. So a
/// lane that is heavy among the lanes is so in every batch, and dividing the lanes by cost among the ranks divides each
/// batch. Where there are fewer pieces than lanes, there is one band, and each lane keeps to draws of one or two
/// graphs.
///
/// A layout graph that one rank could not hold is cut into *parts* of consecutive segments (CatalogueEntry::parts).
/// Each part has draws of its own, as many as a whole graph has: their live segment comes from that part's segments.
/// The draws of a part are dealt like those of any group, so the parts of a graph may be trained by several ranks.
namespace foretime::sharding {

/// Segments of part `part`, [first, end), where the graph has `segments` of them.
inline std::pair<int64_t, int64_t> part_segments(int64_t segments, int64_t parts, int64_t part) {
  return {segments * part / parts, segments * (part + 1) / parts};
}

/// Some of a part's draws of an epoch: draws first … first + count - 1.
struct LaneShare {
  int64_t entry = 0;  // of the catalogue
  int64_t part = 0;   // of the entry; 0 where it has one
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const LaneShare&) const = default;
};

struct Lane {
  std::vector<LaneShare> shares;
  std::vector<int64_t> band_ptr;  // [bands + 1] shares of band b are band_ptr[b] … band_ptr[b + 1] - 1
  int64_t draws = 0;
  double cost = 0;
  bool operator==(const Lane&) const = default;
};

/// What a lane trains on in one batch.
struct PlannedDraw {
  int64_t entry = 0;
  int64_t part = 0;
  int64_t draw = 0;  // of the part, in this epoch
  bool operator==(const PlannedDraw&) const = default;
};

/// What the order of an epoch's draws follows from.
uint64_t epoch_key(uint64_t seed, int64_t epoch);

struct ShardPlan {
  std::vector<Lane> lanes;
  std::vector<int64_t> bands;                // [bands + 1] batches of band b, before an epoch's are shuffled
  std::vector<int> lane_rank;                // [lanes]
  std::vector<std::vector<int>> eval_parts;  // [catalogue entries][parts] who evaluates candidates of the entry
  int64_t batches_per_epoch = 0;             // the draws of the longest lane; shorter lanes pad with zero weight
  double imbalance = 0;                      // largest rank's training cost over the mean, minus 1

  std::vector<int64_t> lanes_of(int rank) const;
  /// Entries of whose files a rank reads something, ascending.
  std::vector<int64_t> entries_of(int rank) const;
  /// Parts of an entry that a rank trains on or evaluates, ascending.
  std::vector<int64_t> parts_of(int rank, int64_t entry) const;
  /// The rank that answers for an entry as a whole: it evaluates part 0, and merges where there are several.
  int eval_rank(int64_t entry) const { return eval_parts[static_cast<size_t>(entry)].front(); }
  /// Lanes that have a draw in batch `position` of an epoch: 1 / their number is the weight of each.
  int64_t live_lanes(int64_t position) const;
  /// The draw of a lane in batch `position` (< lane.draws) of an epoch whose order follows from `key`; each draw comes
  /// once an epoch. Batches are shuffled for all lanes alike, a lane's draws within each band.
  PlannedDraw draw_at(int64_t lane, int64_t position, uint64_t key) const;
};

/// A pure function. Each band takes the `lanes` heaviest pieces that are left and fills the lanes with their draws, in
/// order of cost; what is too little for a batch comes last, and is the only batch with idle lanes. Neighbouring bands
/// are then merged, as long as an epoch in which each lane were a rank would take no more than 1 + mix_slack times as
/// long: batches mix more graphs. Lanes go to ranks as deal_lanes says; ranks may have different numbers of them.
///
/// Training groups are evaluated where they are trained, so that no rank holds a part for evaluation only: by the least
/// loaded of these ranks. The others are dealt by cost (LPT).
ShardPlan make_shard_plan(const Catalogue& catalogue, int64_t lanes, int ranks, double mix_slack = 0);
ShardPlan make_shard_plan(const Catalogue& catalogue, const configs::Settings& settings, int ranks);

}  // namespace foretime::sharding
