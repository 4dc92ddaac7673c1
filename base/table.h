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

  /// Widens the columns so that a row fits. All rows, also the header, must be fitted before line() and rule().
  void fit(const std::vector<std::string>& row);
  /// Returns for each block the indices of the columns that it shows. A table that fits the terminal has one block.
  /// Otherwise its columns continue in further blocks, each of which begins with the first column.
  std::vector<std::vector<size_t>> blocks() const;
  /// Returns a row's line in a block, with its line end. The first cell is left-aligned, the others right-aligned;
  /// missing cells are blank. Cells too wide for the terminal are cut and end with …: the first one at about half of
  /// the width, another one if it does not fit next to the first one.
  std::string line(const std::vector<std::string>& row, const std::vector<size_t>& block) const;
  std::string rule(const std::vector<size_t>& block) const;  // line of hyphens below the header

 private:
  /// Returns the width of a column, limited so that it fits the terminal.
  size_t width_of(size_t column) const;

  size_t width_;
  std::vector<size_t> widths_;  // [columns] characters of the widest cell
};

/// Returns `rows`, one or more, the header first, as a table with a line of hyphens under the header. It is divided
/// into blocks that fit `width` columns of a terminal (TableColumns), with empty lines between them; 0: one block.
std::string format_table(const std::vector<std::vector<std::string>>& rows, size_t width = 0);

}  // namespace foretime
