#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace foretime {

/// Computes the widths of a table's columns without storing its rows: first each row is fitted, then each block of
/// columns is printed line by line.
class TableColumns {
 public:
  /// `width` is the number of columns of the terminal; 0 means unlimited.
  explicit TableColumns(size_t width = 0) : width_(width) {}

  /// Widens the columns for the cells of a row, the header first.
  void fit(const std::vector<std::string>& row);
  /// Returns the indices of the columns that each block shows. A table that fits has one block. Otherwise its columns
  /// continue in further blocks, each of which begins with the first column.
  std::vector<std::vector<size_t>> blocks() const;
  /// Returns a line of a fitted row; the first cell is left-aligned, the others right-aligned. A cell that does not fit
  /// next to the first one ends with ….
  std::string line(const std::vector<std::string>& row, const std::vector<size_t>& block) const;
  /// Returns the rule between the header and the rows of a block.
  std::string rule(const std::vector<size_t>& block) const;

 private:
  /// Returns the width of a column, limited so that it fits the terminal.
  size_t width_of(size_t column) const;

  size_t width_;
  std::vector<size_t> widths_;  // characters
};

/// Returns columns of text, padded to their display width, with a rule under the first row, in blocks that fit `width`
/// (TableColumns).
std::string format_table(const std::vector<std::vector<std::string>>& rows, size_t width = 0);

}  // namespace foretime
