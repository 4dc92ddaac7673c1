#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::worker::testing {

/// A tile group of a chain of three nodes, whose candidate c has the single feature values[c]; run times are 1 +
/// values[c].
inline data::Group tile_group(const std::string& name, const std::vector<float>& values) {
  data::Group group;
  group.name = name;
  group.kind = data::CandidateKind::tile;
  group.unit = data::RuntimeUnit::normalized;
  group.candidates = static_cast<int64_t>(values.size());
  group.graphs.feature_count = 2;
  group.graphs.node_type_count = 4;
  group.graphs.graph_ptr = std::vector<int64_t>{0, 3};
  group.graphs.edge_ptr = std::vector<int64_t>{0, 2};
  group.graphs.node_features = std::vector<float>{1, 2, 3, 4, 5, 7};
  group.graphs.node_types = std::vector<uint8_t>{1, 2, 3};
  group.graphs.edge_source = std::vector<int32_t>{0, 1};
  group.graphs.edge_target = std::vector<int32_t>{1, 2};
  std::vector<float> features(values.size() * data::kTileFeatures, 0.0F);
  std::vector<double> runtimes;
  for (size_t c = 0; c < values.size(); ++c) {
    features[c * data::kTileFeatures] = values[c];
    runtimes.push_back(1.0 + values[c]);
  }
  group.tile_features = features;
  group.runtimes = runtimes;
  return group;
}

}  // namespace foretime::worker::testing
