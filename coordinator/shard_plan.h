#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/catalogue.h"

/// Who trains on what. Training draws are dealt to *lanes*, one draw a lane and batch; lanes are dealt to ranks. The
/// lanes depend on the catalogue and the batch size alone, so the draws of N ranks are those of one rank, whatever N
/// is.
namespace foretime::coordinator {

/// Some of a group's draws of an epoch: draws first … first + count - 1.
struct LaneShare {
  int64_t entry = 0;  // of the catalogue
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const LaneShare&) const = default;
};

struct Lane {
  std::vector<LaneShare> shares;
  int64_t draws = 0;
  double cost = 0;
  bool operator==(const Lane&) const = default;
};

struct ShardPlan {
  std::vector<Lane> lanes;
  std::vector<int> lane_rank;     // [lanes]
  std::vector<int> eval_rank;     // [catalogue entries] who evaluates candidates of the entry
  int64_t batches_per_epoch = 0;  // the draws of the longest lane; shorter lanes pad with zero weight
  double imbalance = 0;           // largest rank's training cost over the mean, minus 1

  std::vector<int64_t> lanes_of(int rank) const;
  /// Entries whose files a rank reads, ascending.
  std::vector<int64_t> entries_of(int rank) const;
  /// Lanes that have a draw in batch `position` of an epoch: 1 / their number is the weight of each.
  int64_t live_lanes(int64_t position) const;
};

/// A pure function. Groups go to lanes in order of decreasing cost, each to the least loaded lane that has room (LPT
/// with equal counts: no lane gets more than its part of the draws, so the lanes end an epoch together); a group with
/// more draws than a lane has room for continues on the next. Lanes go to ranks likewise.
ShardPlan make_shard_plan(const Catalogue& catalogue, int64_t lanes, int ranks);

}  // namespace foretime::coordinator
