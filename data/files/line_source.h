#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/files/inflate.h"

namespace foretime::data {

/// The lines of a text file, plain or gzip (RFC 1952, also several members one after the other; known by its first
/// bytes), one at a time. Memory is bounded by the longest line allowed, whatever the file holds. Damaged gzip data
/// throw DataError, after the lines before the damage.
class LineSource {
 public:
  /// Bytes that may be read after a line, as simdjson wants them.
  static constexpr size_t kPadding = 64;
  static constexpr size_t kLongestLine = size_t{16} << 20;

  explicit LineSource(const std::filesystem::path& file, size_t longest_line = kLongestLine);
  ~LineSource();
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;

  struct Line {
    std::string_view text;  // without its end; valid until the next call
    bool too_long = false;  // then text is its start
  };
  /// The next line, or nothing at the end of the file.
  std::optional<Line> next();
  /// 1-based number of the line that next() gave last.
  int64_t line_number() const { return line_number_; }

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  bool fill();  // more text behind end_; false at the end
  bool read_input();
  size_t read_plain(std::byte* out, size_t room);
  size_t read_gzip(std::byte* out, size_t room);

  std::filesystem::path file_;
  std::unique_ptr<std::FILE, FileCloser> stream_;
  size_t longest_line_;
  bool gzip_ = false, ended_ = false;
  std::unique_ptr<Inflater> inflater_;  // null between gzip members
  std::vector<std::byte> input_;        // bytes of the file
  size_t input_begin_ = 0, input_end_ = 0;
  std::vector<std::byte> text_;  // kPadding more than it holds
  size_t begin_ = 0, end_ = 0;   // of the text not yet given
  size_t searched_ = 0;          // no end of line before it
  int64_t line_number_ = 0;
};

}  // namespace foretime::data
