#pragma once

#include <cstdint>
#include <vector>

#include "sharding/shard_plan.h"
#include "worker/store/group_store.h"

namespace foretime::worker::testing {

/// The parts of a run on so many ranks, put together without a trainer.
struct RunParts {
  RunParts(const configs::Settings& wanted, int rank_count)
      : settings(wanted),
        dataset(sharding::make_dataset_index(settings)),
        plan(sharding::make_shard_plan(dataset, settings, rank_count)),
        store(settings, dataset, all_entries(), {}) {}

  std::vector<int64_t> all_entries() const {
    std::vector<int64_t> all;
    for (size_t i = 0; i < dataset.entries.size(); ++i) all.push_back(static_cast<int64_t>(i));
    return all;
  }

  configs::Settings settings;
  sharding::DatasetIndex dataset;
  sharding::ShardPlan plan;
  GroupStore store;
};

}  // namespace foretime::worker::testing
