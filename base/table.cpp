#include "base/table.h"

#include <algorithm>

#include "base/terminal.h"

namespace foretime {
namespace {

constexpr size_t kGapBeforeColumn = 2;
constexpr size_t kLeastShortenedWidth = 8;

}  // namespace

void TableColumns::fit(const std::vector<std::string>& row) {
  widths_.resize(std::max(widths_.size(), row.size()));
  for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], text_width(row[i]));
}

size_t TableColumns::width_of(size_t column) const {
  if (width_ == 0) return widths_.at(column);
  const size_t first = std::min(widths_.front(), std::max(kLeastShortenedWidth, width_ / 2));
  if (column == 0) return first;
  const size_t taken = first + 2 * kGapBeforeColumn;
  return std::min(widths_.at(column), std::max(kLeastShortenedWidth, width_ > taken ? width_ - taken : 0));
}

std::vector<std::vector<size_t>> TableColumns::blocks() const {
  size_t whole = 0;
  for (const size_t width : widths_) whole += kGapBeforeColumn + width;
  std::vector<std::vector<size_t>> blocks = {{0}};
  size_t used = kGapBeforeColumn + width_of(0);
  for (size_t i = 1; i < widths_.size(); ++i) {
    const size_t more = kGapBeforeColumn + width_of(i);
    if (width_ > 0 && whole > width_ && used + more > width_ && blocks.back().size() > 1) {
      blocks.push_back({0});
      used = kGapBeforeColumn + width_of(0);
    }
    blocks.back().push_back(i);
    used += more;
  }
  return blocks;
}

std::string TableColumns::line(const std::vector<std::string>& row, const std::vector<size_t>& block) const {
  std::string text;
  for (const size_t i : block) {
    const auto cell = i < row.size() ? cut_to_width(row[i], width_of(i)) : std::string();
    const std::string padding(width_of(i) - text_width(cell), ' ');
    text += std::string(kGapBeforeColumn, ' ') + (i == 0 ? cell + padding : padding + cell);
  }
  return text + '\n';
}

std::string TableColumns::rule(const std::vector<size_t>& block) const {
  std::string text;
  for (const size_t i : block) text += std::string(kGapBeforeColumn, ' ') + std::string(width_of(i), '-');
  return text + '\n';
}

std::string format_table(const std::vector<std::vector<std::string>>& rows, size_t width) {
  TableColumns columns(width);
  for (const auto& row : rows) columns.fit(row);
  std::string text;
  for (const auto& block : columns.blocks()) {
    if (!text.empty()) text += '\n';
    for (size_t r = 0; r < rows.size(); ++r) {
      text += columns.line(rows[r], block);
      if (r == 0) text += columns.rule(block);
    }
  }
  return text;
}

}  // namespace foretime
