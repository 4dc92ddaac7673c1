#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/index_range.h"
#include "sharding/dataset_index.h"

namespace foretime::sharding {

// A shard plan assigns samples to ranks. A batch has *slots*, each of which takes one training sample in each batch;
// slots are assigned to ranks. The samples of a slot depend on the dataset index, the batch size and shard.mix_slack
// alone, so any number of ranks trains on the batches of one rank.
//
// Every rank waits for the slowest one in each step, so the plan minimises the sum over steps of the largest rank's
// cost, not the largest sum. Samples are sorted by cost and assigned in *cost buckets* of batches: the heaviest pieces,
// one for each slot, are in the first bucket, the next ones in the second, in the same order of slots. A slot that is
// heavy in one batch is therefore heavy in all, and dividing the slots by cost among the ranks divides each batch. With
// fewer pieces than slots there is one bucket, and each slot has samples of one or two graphs. Samples of one graph in
// a batch share states if one rank has them all, so a rank gets slots of few graphs, and a graph is divided among ranks
// only if its own cost requires it (sharding/partition.h).
//
// A layout graph that one rank cannot hold is cut into *parts* of consecutive segments (IndexEntry::parts). Each part
// has as many samples as a whole graph; their live segment is one of the part's segments. The samples of a part are
// assigned like those of any group, so several ranks may train on the parts of a graph.

/// Returns the range [first, end) of the segments in part `part` (0, 1, …) of a graph with `segments` segments.
inline std::pair<int64_t, int64_t> part_segments(int64_t segments, int64_t parts, int64_t part) {
  return {segments * part / parts, segments * (part + 1) / parts};
}

/// Names some of a part's samples in an epoch: numbers first … first + count - 1.
struct SlotShare {
  int64_t entry = 0;  // number of the group in the dataset index
  int64_t part = 0;   // part of the graph; 0 if the graph has one part
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const SlotShare&) const = default;
};

/// Holds the training samples that one slot has in an epoch, by cost bucket.
struct BatchSlot {
  std::vector<SlotShare> shares;
  std::vector<int64_t> bucket_ptr;  // [cost buckets + 1] shares of cost bucket b are shares[bucket_ptr[b]] …
                                    // shares[bucket_ptr[b + 1] - 1]
  int64_t samples = 0;              // number of all samples
  double cost = 0;                  // sum of the samples' costs (IndexEntry::sample_cost)
  bool operator==(const BatchSlot&) const = default;
  /// Returns the shares of one cost bucket.
  std::span<const SlotShare> in_bucket(size_t bucket) const { return row_of(shares, bucket_ptr, bucket); }
};

/// Names the sample that a slot trains on in one batch.
struct PlannedSample {
  int64_t entry = 0;   // number of the group in the dataset index
  int64_t part = 0;    // part of the graph
  int64_t sample = 0;  // number of the part's sample in this epoch
  bool operator==(const PlannedSample&) const = default;
};

/// Returns the key by which sample_at() shuffles the samples of epoch `epoch` (0, 1, …).
uint64_t epoch_key(uint64_t seed, int64_t epoch);

/// Holds the samples of each slot and the slots of each rank.
struct ShardPlan {
  std::vector<BatchSlot> slots;
  std::vector<int64_t> buckets;  // [cost buckets + 1] bucket b has batches buckets[b] … buckets[b + 1] - 1, unshuffled
  std::vector<int> slot_rank;    // [slots] rank that trains on the slot
  // [dataset index entries][parts] rank that scores the part in evaluations
  std::vector<std::vector<int>> eval_parts;
  int64_t batches_per_epoch = 0;  // number of samples of the longest slot; other slots have no sample in the last batch
  double imbalance = 0;           // largest training cost of a rank in an epoch / mean over ranks, minus 1

  /// Returns the numbers of the slots that `rank` trains on, ascending.
  std::vector<int64_t> slots_of(int rank) const;
  /// Returns the ranks that train on each part of the training groups; the key is (entry, part).
  std::map<std::pair<int64_t, int64_t>, std::set<int>> trainers() const;
  /// Returns the entries that `rank` trains on or evaluates, ascending.
  std::vector<int64_t> entries_of(int rank) const;
  /// Returns the rank that evaluates an entry: it scores part 0 and merges the scores of all parts.
  int eval_rank(int64_t entry) const { return eval_parts[entry].front(); }
  /// Returns the number n of slots with a sample in batch `position` of an epoch. Each sample has the weight 1 / n.
  int64_t live_slots(int64_t position) const;
  /// Returns the sample of a slot in batch `position` of the epoch with the key `key` (epoch_key). Each sample occurs
  /// once an epoch. All slots have one shuffled order of batches, in which the last batch stays last; a slot's samples
  /// are shuffled within each bucket. Throws BrokenInvariant unless 0 ≤ position < slots[slot].samples.
  PlannedSample sample_at(int64_t slot, int64_t position, uint64_t key) const;
};

/// Makes a plan that depends only on the arguments. Each bucket takes the `slots` heaviest remaining pieces and fills
/// the slots with their samples, in order of cost; a remainder that is too small for a batch comes last, and is the
/// only batch with idle slots. Neighbouring buckets are then merged, so that batches mix more graphs, as long as an
/// epoch with one rank a slot would take at most 1 + mix_slack times as long. partition_slots assigns slots to ranks;
/// ranks may have different numbers of slots.
///
/// A part of a training group is evaluated by the rank with the least evaluation work among those that train on it, so
/// that no rank holds the part for evaluation only. Parts of other groups are assigned by cost (LPT).
ShardPlan make_shard_plan(const DatasetIndex& dataset, int64_t slots, int ranks, double mix_slack = 0);
/// Makes the plan for the batch size and shard.mix_slack of `settings`.
ShardPlan make_shard_plan(const DatasetIndex& dataset, const configs::Settings& settings, int ranks);

}  // namespace foretime::sharding
