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
  double weight = 0;                // 1 / number of live groups in the batch, over all ranks
  std::vector<int64_t> candidates;  // ids in the group, distinct
  int64_t part = 0;                 // part of the graph that the live segment is chosen from (sharding/shard_plan.h)
  uint64_t key = 0;                 // key of the sample's random choices
  int64_t index = 0;                // rises from batch to batch, and within a batch from slot to slot
};

/// Samples batches. A sample is a pure function of (seed, batch number, batch slot), so there is no state to save, and
/// a rank samples for its own slots what one rank would have sampled for all.
class Sampler {
 public:
  Sampler(const sharding::ShardPlan& plan, const configs::SamplerSettings& settings, uint64_t seed)
      : plan_(plan), settings_(settings), seed_(seed) {}

  /// Returns the samples of global batch `batch` (0, 1, …, over all epochs) that `rank` trains on; empty if it has
  /// none.
  std::vector<Sample> samples(int64_t batch, int rank, const GroupStore& store) const;
  /// Returns the dataset entries that `rank` samples in the rest of the epoch of `batch`, in the order of their first
  /// use.
  std::vector<int64_t> first_uses(int64_t batch, int rank) const;

 private:
  /// Returns the training candidates of the `round`-th sample of an entry in an epoch.
  std::vector<int64_t> choose(const LoadedGroup& loaded, int64_t entry, int64_t epoch, int64_t round) const;

  const sharding::ShardPlan& plan_;
  configs::SamplerSettings settings_;
  uint64_t seed_;
};

}  // namespace foretime::worker
