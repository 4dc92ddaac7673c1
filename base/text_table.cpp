#include "base/text_table.h"

#include <algorithm>

namespace foretime {
namespace {

/// Display width: every character of UTF-8 but its continuation bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string padding(widths[i] - width_of(rows[r][i]), ' ');
      text += i == 0 ? "  " + rows[r][i] + padding : "  " + padding + rows[r][i];
    }
    text += '\n';
    if (r == 0) {
      for (const size_t width : widths) text += "  " + std::string(width, '-');
      text += '\n';
    }
  }
  return text;
}

}  // namespace foretime
