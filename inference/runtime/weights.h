#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace foretime::inference {

/// A named weight: row-major, one or two dimensions.
struct Weight {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Weight>;

/// Shapes of the weights that a graph may name: {rows, columns}, or {length} for a vector.
using WeightShapes = std::map<std::string, std::vector<int64_t>>;
WeightShapes shapes_of(const Weights& weights);

}  // namespace foretime::inference
