#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace foretime {

/// The widths of a table's columns, for tables whose rows are made twice and never held together: first each row is
/// fitted, then printed as a line.
class TableColumns {
 public:
  void fit(const std::vector<std::string>& row);
  /// Of a row that was fitted; the first cell on the left of its column, the others on the right.
  std::string line(const std::vector<std::string>& row) const;
  std::string rule() const;  // what stands below the first row

 private:
  std::vector<size_t> widths_;  // characters
};

}  // namespace foretime
