#include "base/table.h"

#include <algorithm>

namespace foretime {

/// Every character of UTF-8 but its continuation bytes.
static size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void TableColumns::fit(const std::vector<std::string>& row) {
  widths_.resize(std::max(widths_.size(), row.size()));
  for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], width_of(row[i]));
}

std::string TableColumns::line(const std::vector<std::string>& row) const {
  std::string text;
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string padding(widths_.at(i) - width_of(row[i]), ' ');
    text += i == 0 ? "  " + row[i] + padding : "  " + padding + row[i];
  }
  return text + '\n';
}

std::string TableColumns::rule() const {
  std::string text;
  for (const size_t width : widths_) text += "  " + std::string(width, '-');
  return text + '\n';
}

}  // namespace foretime
