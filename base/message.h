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

/// Flushes standard output. Throws std::system_error with EPIPE if standard output has no reader any more (`| head`),
/// and FileError, also as StorageError, if it cannot be written, now or at an earlier write.
void flush_output();

/// Flushes standard output and then writes `text` unchanged to standard error, so that a log with both streams keeps
/// their order. Never throws for a stream that cannot be written.
void print_message(std::string_view text);
/// Prints a format with its arguments by the other print_message().
template <class First, class... Rest>
void print_message(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  print_message(std::string_view(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)));
}

}  // namespace foretime
