#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "inference/runtime/references.h"
#include "inference/runtime/weights.h"

namespace foretime::inference {

inline constexpr int64_t kWidest = 1 << 20;  // columns of a value: far more than any model has

/// The columns of a graph's values, as shape rules see them. All failures are BundleErrors that name the operation.
class Widths {
 public:
  /// `list`: embed or score, for messages. Only operations of `score` see whole groups, only those of `embed` matrices.
  Widths(const char* list, bool groups, const WeightShapes& weights)
      : list_(list), groups_(groups), weights_(weights) {}

  void provide(Value input, int64_t columns);
  /// The operation that comes next, for messages.
  void begin(const char* operation) { operation_ = operation; }
  void add(int64_t columns);

  int64_t of(Value value) const;
  bool groups() const { return groups_; }
  /// A weight of two dimensions: {rows, columns}.
  std::pair<int64_t, int64_t> table(const WeightRef& weight) const;
  void vector(const WeightRef& weight, int64_t length) const;
  /// Of a weight of one dimension.
  int64_t length(const WeightRef& weight) const;
  void optional_vector(const WeightRef& weight, int64_t length) const {
    if (weight.defined()) vector(weight, length);
  }
  void matrix(const MatrixRef& matrix) const;
  void expect(bool condition, const char* what, auto found, auto expected) const {
    if (!condition) fail(fmt::format("{}: {}, expected {}", what, found, expected));
  }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const std::vector<int64_t>& shape(const WeightRef& weight) const;

  const char* list_;
  bool groups_;
  const WeightShapes& weights_;
  const char* operation_ = "";
  int64_t inputs_[kInputs] = {-1, -1, -1, -1};
  std::vector<int64_t> columns_;  // of the nodes so far
};

}  // namespace foretime::inference
