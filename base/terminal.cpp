#include "base/terminal.h"

#include <algorithm>

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

namespace foretime {
namespace {

bool begins_character(char c) { return !continues_character(c); }

/// The bytes of the first characters of a text.
size_t bytes_of(std::string_view text, size_t characters) {
  size_t bytes = 0;
  for (; bytes < text.size(); ++bytes)
    if (begins_character(text[bytes]) && characters-- == 0) break;
  return bytes;
}

/// Returns the column at which the value begins in "  name   value", or at which the line begins where there is no
/// value in the left half.
size_t value_column(std::string_view line, size_t width) {
  const auto begin = line.find_first_not_of(' ');
  const auto gap = line.find("  ", begin);
  const auto value = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  if (value <= width / 2) return value;
  return begin <= width / 2 ? begin : 0;
}

}  // namespace

std::optional<TerminalSize> terminal_size(int descriptor) {
  constexpr size_t kLeastColumns = 20, kLeastLines = 4;
  if (isatty(descriptor) == 0) return std::nullopt;
  winsize size{};
  TerminalSize found;
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) return found;
  if (size.ws_col >= kLeastColumns) found.columns = size.ws_col;
  if (size.ws_row >= kLeastLines) found.lines = size.ws_row;
  return found;
}

size_t output_width() {
  const auto size = terminal_size(STDOUT_FILENO);
  return size ? size->columns : 0;
}

size_t text_width(std::string_view text) { return std::ranges::count_if(text, begins_character); }

std::string cut_to_width(std::string_view line, size_t width) {
  if (text_width(line) <= width) return std::string(line);
  if (width == 0) return "";
  return std::string(line.substr(0, bytes_of(line, width - 1))) + "…";
}

std::string folded(std::string_view text, size_t width) {
  if (width == 0) return std::string(text);
  std::string found;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto indent = value_column(line, width);
    for (size_t room = width; text_width(line) > room; room = width - indent) {
      auto end = bytes_of(line, room);
      const auto space = line.rfind(' ', end);
      if (space != std::string_view::npos && space > end / 2) end = space;
      found.append(line.substr(0, end)).append("\n").append(indent, ' ');
      line.remove_prefix(end);
      line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    }
    found.append(line).append("\n");
  }
  return found;
}

}  // namespace foretime
