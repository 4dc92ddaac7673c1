#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/files/inflate.h"

namespace foretime::data {

/// The bytes of a file, plain or of what gzip holds (RFC 1952, also several members one after the other; known by its
/// first bytes), piece by piece.
class ByteSource {
 public:
  /// Throws DataError where the file cannot be opened, StorageError where the storage fails.
  explicit ByteSource(const std::filesystem::path& file);

  bool gzip() const { return gzip_; }
  /// At most `room` bytes; 0 at the end. Throws DataError where gzip data are damaged, after the bytes before that.
  size_t read(std::byte* out, size_t room);
  /// Fewer than `bytes` only at the end.
  std::string read_text(size_t bytes);

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  bool read_input();
  size_t read_plain(std::byte* out, size_t room);
  size_t read_gzip(std::byte* out, size_t room);

  std::filesystem::path file_;
  std::unique_ptr<std::FILE, FileCloser> stream_;
  bool gzip_ = false;
  std::unique_ptr<Inflater> inflater_;  // null between gzip members
  std::vector<std::byte> input_;        // bytes of the file
  size_t input_begin_ = 0, input_end_ = 0;
  uint64_t produced_ = 0;  // bytes of what gzip holds
};

}  // namespace foretime::data
