#include "inference/runtime/widths.h"

#include <fmt/ranges.h>

#include "inference/error.h"

namespace foretime::inference {

WeightShapes shapes_of(const Weights& weights) {
  WeightShapes shapes;
  for (const auto& [name, weight] : weights) shapes[name] = weight.shape;
  return shapes;
}

void Widths::provide(Value input, int64_t columns) { inputs_[input.id] = columns; }

void Widths::add(int64_t columns) {
  expect(columns >= 1 && columns <= kWidest, "columns", columns, fmt::format("1 to {}", kWidest));
  columns_.push_back(columns);
}

int64_t Widths::of(Value value) const {
  if (value.id < 0) fail("a missing input");
  const auto node = static_cast<size_t>(value.id) - (value.id < kInputs ? 0 : kInputs);
  if (value.id < kInputs ? inputs_[value.id] < 0 : node >= columns_.size())
    fail(fmt::format("input '{}': not made before", to_string(value)));
  return value.id < kInputs ? inputs_[value.id] : columns_[node];
}

const std::vector<int64_t>& Widths::shape(const WeightRef& weight) const {
  const auto found = weights_.find(weight.name);
  if (found == weights_.end()) fail(fmt::format("weight '{}': not in the bundle", weight.name));
  return found->second;
}

std::pair<int64_t, int64_t> Widths::table(const WeightRef& weight) const {
  const auto& found = shape(weight);
  if (found.size() != 2) fail(fmt::format("weight '{}': {} dimensions, expected 2", weight.name, found.size()));
  return {found[0], found[1]};
}

void Widths::vector(const WeightRef& weight, int64_t length) const {
  const auto& found = shape(weight);
  if (found != std::vector{length})
    fail(fmt::format("weight '{}': shape [{}], expected [{}]", weight.name, fmt::join(found, ", "), length));
}

int64_t Widths::length(const WeightRef& weight) const {
  const auto& found = shape(weight);
  if (found.size() != 1) fail(fmt::format("weight '{}': {} dimensions, expected 1", weight.name, found.size()));
  return found[0];
}

void Widths::matrix(const MatrixRef& matrix) const {
  if (groups_ && matrix.kind != MatrixRef::Kind::identity) fail("a matrix, which only operations of embed have");
  if (matrix.kind >= MatrixRef::Kind::adjacency && matrix.at >= 0) of({matrix.at});
}

void Widths::fail(const std::string& what) const {
  throw BundleError(fmt::format("graph: {} operation {} ({}): {}", list_, columns_.size(), operation_, what));
}

}  // namespace foretime::inference
