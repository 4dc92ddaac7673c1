#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sharding/dataset_index.h"

namespace foretime::sharding {

// Who trains on what. A batch has *slots*, each of which takes one training sample in each batch; slots are assigned
// to ranks. What a slot trains on depends on the dataset index, the batch size and shard.mix_slack alone, so any
// number of ranks trains on the batches of one rank.
//
// Every rank waits for the slowest one in each step, so the plan makes the sum over steps of the largest rank's cost
// small, and not the largest sum. Samples are sorted by cost and assigned in *cost buckets* of batches: the heaviest
// pieces, one to a slot, are in the first bucket, the next ones in the second, in the same order of slots in each. So
// a slot that is heavy in one batch is heavy in all, and dividing the slots by cost among the ranks divides each
// batch. With fewer pieces than slots there is one bucket, and each slot has samples of one or two graphs. Samples of
// one graph in a batch share states where one rank has them all, so a rank is given slots of few graphs, and a graph is
// cut among ranks only where its own cost asks for that (sharding/partition.h).
//
// A layout graph that one rank could not hold is cut into *parts* of consecutive segments (IndexEntry::parts).
// Each part has samples of its own, as many as a whole graph has: their live segment comes from that part's segments.
// The samples of a part are assigned like those of any group, so the parts of a graph may be trained by several ranks.

/// Segments of part `part`, [first, end), where the graph has `segments` of them.
inline std::pair<int64_t, int64_t> part_segments(int64_t segments, int64_t parts, int64_t part) {
  return {segments * part / parts, segments * (part + 1) / parts};
}

/// Some of a part's samples of an epoch: samples first … first + count - 1.
struct SlotShare {
  int64_t entry = 0;  // of the dataset index
  int64_t part = 0;   // of the entry; 0 where it has one
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const SlotShare&) const = default;
};

struct BatchSlot {
  std::vector<SlotShare> shares;
  std::vector<int64_t> bucket_ptr;  // [buckets + 1] shares of bucket b are bucket_ptr[b] … bucket_ptr[b + 1] - 1
  int64_t samples = 0;
  double cost = 0;
  bool operator==(const BatchSlot&) const = default;
  std::span<const SlotShare> in_bucket(size_t bucket) const {
    return std::span(shares).subspan(static_cast<size_t>(bucket_ptr[bucket]),
                                     static_cast<size_t>(bucket_ptr[bucket + 1] - bucket_ptr[bucket]));
  }
};

/// What a slot trains on in one batch.
struct PlannedSample {
  int64_t entry = 0;
  int64_t part = 0;
  int64_t sample = 0;  // of the part, in this epoch
  bool operator==(const PlannedSample&) const = default;
};

/// What the order of an epoch's samples follows from.
uint64_t epoch_key(uint64_t seed, int64_t epoch);

struct ShardPlan {
  std::vector<BatchSlot> slots;
  std::vector<int64_t> buckets;              // [buckets + 1] batches of bucket b, before an epoch's are shuffled
  std::vector<int> slot_rank;                // [slots]
  std::vector<std::vector<int>> eval_parts;  // [dataset index entries][parts] who evaluates candidates of the entry
  int64_t batches_per_epoch = 0;             // the samples of the longest slot; shorter slots pad with zero weight
  double imbalance = 0;                      // largest rank's training cost over the mean, less 1

  std::vector<int64_t> slots_of(int rank) const;
  /// Ranks that train on each part of an entry: of (entry, part).
  std::map<std::pair<int64_t, int64_t>, std::set<int>> trainers() const;
  /// Entries of whose files a rank reads something, ascending.
  std::vector<int64_t> entries_of(int rank) const;
  /// The rank that answers for an entry as a whole: it evaluates part 0, and merges where there are several.
  int eval_rank(int64_t entry) const { return eval_parts[static_cast<size_t>(entry)].front(); }
  /// Slots that have a sample in batch `position` of an epoch: 1 / their number is the weight of each.
  int64_t live_slots(int64_t position) const;
  /// The sample of a slot in batch `position` (< slot.samples) of an epoch whose order follows from `key`; each sample
  /// comes once an epoch. Batches are shuffled for all slots alike, a slot's samples within each bucket.
  PlannedSample sample_at(int64_t slot, int64_t position, uint64_t key) const;
};

/// A pure function. Each bucket takes the `slots` heaviest pieces that are left and fills the slots with their samples,
/// in order of cost; what is too little for a batch comes last, and is the only batch with idle slots. Neighbouring
/// buckets are then merged, as long as an epoch in which each slot were a rank would take no more than 1 + mix_slack
/// times as long: batches mix more graphs. Slots go to ranks as partition_slots says; ranks may have different numbers
/// of them.
///
/// Training groups are evaluated where they are trained, so that no rank holds a part for evaluation only: by the least
/// loaded of these ranks. The others are assigned by cost (LPT).
ShardPlan make_shard_plan(const DatasetIndex& dataset, int64_t slots, int ranks, double mix_slack = 0);
ShardPlan make_shard_plan(const DatasetIndex& dataset, const configs::Settings& settings, int ranks);

}  // namespace foretime::sharding
