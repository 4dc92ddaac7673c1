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

/// The lines of a text file, plain or gzip (ByteSource), one at a time, without UTF-8's byte-order mark. Memory is
/// bounded by the longest line allowed, whatever the file holds. Damaged gzip data throw DataError, after the lines
/// before the damage.
class LineSource {
 public:
  /// Bytes that may be read after a line, as simdjson wants them.
  static constexpr size_t kPadding = 64;
  static constexpr size_t kLongestLine = size_t{16} << 20;

  explicit LineSource(const std::filesystem::path& file, size_t longest_line = kLongestLine);

  struct Line {
    std::string_view text;  // without its end; valid until the next call
    bool too_long = false;  // then text is its start
  };
  /// The next line, or nothing at the end of the file.
  std::optional<Line> next();
  /// 1-based number of the line that next() gave last.
  int64_t line_number() const { return line_number_; }

 private:
  bool fill();  // more text behind end_; false at the end

  ByteSource source_;
  size_t longest_line_;
  bool ended_ = false;
  std::vector<std::byte> text_;  // kPadding more than it holds
  size_t begin_ = 0, end_ = 0;   // of the text not yet given
  size_t searched_ = 0;          // no end of line before it
  int64_t line_number_ = 0;
};

}  // namespace foretime::data
