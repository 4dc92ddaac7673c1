#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace foretime::data {

/// Takes node features in pieces of whole rows of so many columns, in the order of the nodes.
using FeatureSink = std::function<void(std::span<const float> rows, int64_t columns)>;

/// Where the two arrays of a layout group go that may be too large for memory, each in pieces and in its order: first
/// all features, then all codes. A piece is gone when the call returns.
struct LayoutSink {
  FeatureSink node_features;
  /// Whole candidates, [configurable] each.
  std::function<void(std::span<const uint8_t> candidates, int64_t configurable)> codes;
};

}  // namespace foretime::data
