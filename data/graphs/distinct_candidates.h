#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

struct DistinctCandidates {
  std::vector<int64_t> ids;    // the first candidate of each configuration, in the order given
  std::vector<int64_t> place;  // [candidates] position in ids
};

/// Tells candidates of one configuration (configuration_hashes), which have one score, as one.
DistinctCandidates distinct_candidates(const Group& group, std::span<const int64_t> candidates);

}  // namespace foretime::data
