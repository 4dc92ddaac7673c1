#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/files/byte_source.h"

namespace foretime::data {

/// Reads the lines of a text file, plain or gzip (ByteSource), one at a time, without UTF-8's byte-order mark. Memory
/// is bounded by the longest allowed line. Damaged gzip data throw DataError, after the lines before the damage.
class LineSource {
 public:
  /// Counts the readable bytes after each line, which simdjson needs.
  static constexpr size_t kPadding = 64;
  static constexpr size_t kLongestLine = size_t{16} << 20;

  explicit LineSource(const std::filesystem::path& file, size_t longest_line = kLongestLine);

  struct Line {
    std::string_view text;  // line without its end; valid until the next call
    bool too_long = false;  // text is only the start of the line
  };
  /// Returns the next line; empty at the end of the file.
  std::optional<Line> next();
  /// Returns the 1-based number of the last line.
  int64_t line_number() const { return line_number_; }

 private:
  bool fill();  // appends text at end_; false at the end of the file

  ByteSource source_;
  size_t longest_line_;
  bool ended_ = false;
  std::vector<std::byte> text_;  // kPadding bytes longer than its content
  size_t begin_ = 0, end_ = 0;   // unread part of text_
  size_t searched_ = 0;          // the line end is not before this position
  int64_t line_number_ = 0;
};

}  // namespace foretime::data
