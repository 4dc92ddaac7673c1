#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// Properties of terminals, and texts that fit them.
namespace foretime {

struct TerminalSize {
  size_t columns = 80, lines = 24;
};

/// Returns the size of the terminal behind a file descriptor; nullopt for files and pipes, which get plain text. A
/// terminal with an unknown or unusable size counts as 80 × 24.
std::optional<TerminalSize> terminal_size(int descriptor);
/// Returns the number of columns of the terminal on standard output; 0 if it is none, so that files and pipes get whole
/// lines.
size_t output_width();

/// Returns the number of UTF-8 characters, each of which is assumed to be one column wide.
size_t text_width(std::string_view text);
/// Returns the first characters of a line; the last one is … if some are missing.
std::string cut_to_width(std::string_view line, size_t width);
/// Wraps lines of "name   value", indented or not, to `width` columns: longer values continue below their beginning,
/// broken at a space if possible. Width 0 leaves the text unchanged.
std::string folded(std::string_view text, size_t width);

}  // namespace foretime
