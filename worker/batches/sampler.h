#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "sharding/shard_plan.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// Holds the candidates that a batch takes from one group, and the weight of their loss.
struct Sample {
  int64_t entry = 0;                // number of the group in the dataset index
  double weight = 0;                // 1 / number of samples in the batch of all ranks
  std::vector<int64_t> candidates;  // training candidates, as distinct ids in the group
  int64_t part = 0;                 // part of the graph that the live segment is chosen from (sharding/shard_plan.h)
  uint64_t key = 0;                 // key of the sample's random choices of segments
  int64_t index = 0;                // rises from batch to batch, and within a batch from slot to slot
};

/// Samples batches. A sample is a pure function of (seed, batch number, batch slot), so there is no state to save, and
/// the samples of a slot are equal for any number of ranks.
class Sampler {
 public:
  Sampler(const sharding::ShardPlan& plan, const configs::SamplerSettings& settings, uint64_t seed)
      : plan_(plan), settings_(settings), seed_(seed) {}

  /// Returns the samples that `rank` has in batch `batch` (0, 1, …, counted over all epochs), by slot; may be empty.
  std::vector<Sample> samples(int64_t batch, int rank, const GroupStore& store) const;
  /// Returns the entries that `rank` samples from `batch` to the end of the epoch, in the order of first use.
  std::vector<int64_t> first_uses(int64_t batch, int rank) const;

 private:
  /// Returns the candidates of sample `round` (0, 1, …) of an entry in an epoch: sampler.candidates_per_group of the
  /// training candidates, or all if that is 0 or more than there are.
  std::vector<int64_t> choose(const LoadedGroup& loaded, int64_t entry, int64_t epoch, int64_t round) const;

  const sharding::ShardPlan& plan_;
  configs::SamplerSettings settings_;
  uint64_t seed_;
};

}  // namespace foretime::worker
