#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace foretime::inference {

/// Uninitialised floats that are used again: a plan's values come and go, and fresh pages cost more than arithmetic.
class Workspace {
 public:
  std::vector<float> take(size_t size);
  void give(std::vector<float>&& buffer);

 private:
  static constexpr size_t kKept = 32;
  std::vector<std::vector<float>> free_;
};

/// A dense matrix, row after row.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;  // at least rows * columns

  float* row(int64_t r) { return values.data() + r * columns; }
  const float* row(int64_t r) const { return values.data() + r * columns; }
  int64_t size() const { return rows * columns; }
};

}  // namespace foretime::inference
