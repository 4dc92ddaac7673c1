#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/files/inflate.h"

namespace foretime::data {

/// Reads the bytes of a file piece by piece. A gzip file (RFC 1952, also several members in sequence), recognised by
/// its first two bytes, is decompressed. All functions throw FileError, also as StorageError, if reading fails.
class ByteSource {
 public:
  /// Opens the file. Throws DataError for a folder and a file that cannot be opened.
  explicit ByteSource(const std::filesystem::path& file);

  bool gzip() const { return gzip_; }
  /// Puts the next decompressed bytes, at most `room`, into `out` and returns their number, which is 0 only at the end
  /// or if `room` is 0. Throws DataError for damaged or cut gzip data, once the bytes before the damage have been read.
  size_t read(std::byte* out, size_t room);
  /// Returns the next `bytes` decompressed bytes; fewer only at the end. Throws the errors of read().
  std::string read_text(size_t bytes);

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  /// Reads more of the file into input_; returns false at its end.
  bool read_input();
  size_t read_plain(std::byte* out, size_t room);
  size_t read_gzip(std::byte* out, size_t room);

  std::filesystem::path file_;
  std::unique_ptr<std::FILE, FileCloser> stream_;
  bool gzip_ = false;
  std::unique_ptr<Inflater> inflater_;  // null between gzip members
  std::vector<std::byte> input_;        // compressed or plain bytes of the file
  size_t input_begin_ = 0, input_end_ = 0;
  uint64_t produced_ = 0;  // decompressed bytes
};

}  // namespace foretime::data
