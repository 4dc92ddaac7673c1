#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/files/inflate.h"

namespace foretime::data {

/// Reads the bytes of a file piece by piece; a gzip file (RFC 1952, also several members in sequence; recognised by its
/// first bytes) is decompressed.
class ByteSource {
 public:
  /// Opens the file. Throws DataError if it cannot be opened, StorageError if the storage fails.
  explicit ByteSource(const std::filesystem::path& file);

  bool gzip() const { return gzip_; }
  /// Reads at most `room` bytes; returns 0 at the end. Throws DataError for damaged gzip data, after the bytes before
  /// the damage.
  size_t read(std::byte* out, size_t room);
  /// Returns the next `bytes` bytes; fewer only at the end.
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
