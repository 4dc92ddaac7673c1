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
/// is bounded by the longest allowed line. All functions throw the errors of ByteSource.
class LineSource {
 public:
  /// Counts the readable bytes after each line, which simdjson needs.
  static constexpr size_t kPadding = 64;
  static constexpr size_t kLongestLine = size_t{16} << 20;  // bytes

  explicit LineSource(const std::filesystem::path& file, size_t longest_line = kLongestLine);  // limit in bytes

  struct Line {
    std::string_view text;  // line without \n or \r\n; valid until the next call of next()
    bool too_long = false;  // the line is longer than the limit, and `text` may lack a part of it
  };
  /// Returns the next line; nullopt at the end. Throws DataError at damaged gzip data, after the lines before them.
  std::optional<Line> next();
  /// Returns the 1-based number of the line that next() returned last; 0 before the first.
  int64_t line_number() const { return line_number_; }

 private:
  bool fill();  // appends bytes of the file at end_; false at the end of the file

  ByteSource source_;
  size_t longest_line_;
  bool ended_ = false;
  std::vector<std::byte> text_;  // kPadding bytes longer than its content
  size_t begin_ = 0, end_ = 0;   // unread part of text_
  size_t searched_ = 0;          // the line end is not before this position
  int64_t line_number_ = 0;
};

}  // namespace foretime::data
