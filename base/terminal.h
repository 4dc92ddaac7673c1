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

/// Returns the size of the terminal behind a file descriptor; nullopt for files and pipes. Fewer than 20 columns, or an
/// unknown number, count as 80; fewer than 4 lines count as 24.
std::optional<TerminalSize> terminal_size(int descriptor);
/// Returns the number of columns of the terminal on standard output; 0 (unlimited) if standard output is no terminal.
size_t output_width();

/// Returns the number of UTF-8 characters, each of which is assumed to be one column wide.
size_t text_width(std::string_view text);
/// Returns the first `width` characters of a line. If more follow, the last of these characters is replaced by ….
std::string cut_to_width(std::string_view line, size_t width);
/// Wraps lines of "name   value", indented or not, to `width` columns, at spaces if possible. A line continues
/// under its value (under its name if the value begins in the right half). Every line then has a line end. Width 0:
/// returns the text unchanged.
std::string folded(std::string_view text, size_t width);

}  // namespace foretime
