#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// What text that is made for a terminal needs to know of it.
namespace foretime {

struct TerminalSize {
  size_t columns = 80, lines = 24;
};

/// Of the terminal behind a file descriptor; empty where it is none, so that files and pipes get plain text. One that
/// does not know its size, or has none of any use, counts as 80 × 24.
std::optional<TerminalSize> terminal_size(int descriptor);
/// Columns of the terminal on standard output; 0 where it is none, so that files and pipes get whole lines.
size_t output_width();

/// Characters of UTF-8, each of which is taken to be one column wide.
size_t text_width(std::string_view text);
/// The first characters of a line, the last of which is … where some are missing.
std::string cut_to_width(std::string_view line, size_t width);
/// Lines of "name   value", indented or not, in `width` columns: what is longer goes on below its value, at a space
/// where there is one. Width 0 leaves the text unchanged.
std::string folded(std::string_view text, size_t width);

}  // namespace foretime
