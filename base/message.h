#pragma once

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace foretime {

/// Writes text to standard output or standard error at once. If the stream has no reader any more (a closed terminal or
/// pipe), it becomes /dev/null, and the program continues without a display. Other errors of standard error are
/// ignored; standard output keeps its error, which the end of the program reports.
void show(std::FILE* stream, std::string_view text);

/// Flushes standard output. Throws std::system_error with EPIPE if it has no reader any more (`| head`), and
/// StorageError or FileError if it cannot be written.
void flush_output();

/// Writes a message to standard error after everything that standard output still buffers, so that a log with both
/// streams has them in their order and an error comes last. Never throws for a stream that cannot be written.
void print_message(std::string_view text);
template <class First, class... Rest>
void print_message(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  print_message(std::string_view(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)));
}

}  // namespace foretime
