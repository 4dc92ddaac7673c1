#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "sharding/shard_plan.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// One group of a batch: which of its candidates, and what its loss weighs.
struct Sample {
  int64_t entry = 0;                // of the dataset index
  double weight = 0;                // 1 / live groups of the batch over all ranks
  std::vector<int64_t> candidates;  // ids in the group, distinct
  int64_t part = 0;                 // of the entry, which the live segment is one of (sharding/shard_plan.h)
  uint64_t key = 0;                 // for the random choices that are left
  int64_t index = 0;                // of the sample: rises with batches, and within one with batch slots
};

/// Samples batches. A sample is a pure function of (seed, batch number, batch slot), so there is no state to save, and
/// a rank samples for its own slots what one rank would have sampled for all.
class Sampler {
 public:
  Sampler(const sharding::ShardPlan& plan, const configs::SamplerSettings& settings, uint64_t seed)
      : plan_(plan), settings_(settings), seed_(seed) {}

  /// Those of global batch `batch` (0, 1, …, over all epochs) that fall to `rank`; empty where it pads.
  std::vector<Sample> samples(int64_t batch, int rank, const GroupStore& store) const;
  /// Entries that `rank` samples in the epoch of `batch`, in the order of their first use from there on.
  std::vector<int64_t> first_uses(int64_t batch, int rank) const;

 private:
  std::vector<int64_t> choose(const LoadedGroup& loaded, int64_t entry, int64_t epoch, int64_t round) const;

  const sharding::ShardPlan& plan_;
  configs::SamplerSettings settings_;
  uint64_t seed_;
};

}  // namespace foretime::worker
