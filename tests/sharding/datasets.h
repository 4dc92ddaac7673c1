#pragma once

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sharding/dataset_index.h"

namespace foretime::sharding {

/// Training groups of these costs and samples of an epoch, then groups to validate on, of cost 10.
inline DatasetIndex dataset_of(const std::vector<std::pair<double, int64_t>>& cost_and_samples, int64_t valid = 2) {
  DatasetIndex dataset;
  const auto add = [&](const char* prefix, Role role, double cost, int64_t samples) {
    IndexEntry entry{.header = {}, .role = role, .sample_cost = cost, .samples = samples};
    entry.header.name = fmt::format("{}{}", prefix, dataset.entries.size());
    entry.header.nodes = entry.header.candidates = 100;
    dataset.entries.push_back(entry);
  };
  for (const auto& [cost, samples] : cost_and_samples) add("g", Role::train, cost, samples);
  for (int64_t i = 0; i < valid; ++i) add("v", Role::valid, 10, 0);
  return dataset;
}

}  // namespace foretime::sharding
