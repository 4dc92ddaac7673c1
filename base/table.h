#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace foretime {

/// The widths of a table's columns, for tables whose rows are made several times and never held together: first each
/// row is fitted, then each block of columns is printed line by line.
class TableColumns {
 public:
  /// `width`: columns of the terminal that the table has to fit; 0: as wide as it comes.
  explicit TableColumns(size_t width = 0) : width_(width) {}

  void fit(const std::vector<std::string>& row);
  /// The places of the columns that each block shows. A table that fits has one block. Where it does not, columns
  /// continue in further blocks, each of which begins with the first column.
  std::vector<std::vector<size_t>> blocks() const;
  /// A line of a row that was fitted; the first cell on the left of its column, the others on the right. A cell that
  /// has no room next to the first one ends with ….
  std::string line(const std::vector<std::string>& row, const std::vector<size_t>& block) const;
  std::string rule(const std::vector<size_t>& block) const;  // below the first row

 private:
  size_t width_of(size_t column) const;

  size_t width_;
  std::vector<size_t> widths_;  // characters
};

/// Columns of text, padded to their display width, with a rule under the first row, in blocks that fit `width`
/// (TableColumns).
std::string format_table(const std::vector<std::vector<std::string>>& rows, size_t width);

}  // namespace foretime
