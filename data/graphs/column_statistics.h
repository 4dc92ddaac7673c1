#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/array.h"

namespace foretime::data {

/// What scaling needs of a table of numbers, by column. Two tables' statistics add up: rows, sums and squares by
/// adding, minima and maxima by taking the smaller and the larger one.
struct ColumnStatistics {
  int64_t rows = 0;
  Array<double> sums, squares, minima, maxima;  // [columns]

  int64_t columns() const { return sums.size(); }
};

/// Takes rows in order, in pieces; the result does not depend on the pieces.
class ColumnAccumulator {
 public:
  /// `log`: of sign(x) log(1 + |x|) instead of x.
  ColumnAccumulator(int64_t columns, bool log);
  /// Whole rows, row-major.
  void add(std::span<const float> rows);
  /// Without rows, minima and maxima are infinity and -infinity.
  ColumnStatistics finish() &&;

 private:
  template <class Value>
  void add_as(std::span<const float> rows, Value value);

  bool log_;
  int64_t rows_ = 0;
  std::vector<double> sums_, squares_, minima_, maxima_;
};

ColumnStatistics column_statistics(std::span<const float> values, int64_t columns, bool log);

}  // namespace foretime::data
