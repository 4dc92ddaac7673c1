#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/no_copy.h"

namespace foretime {

/// Maps a range of a file for reading.
///
/// If a file is truncated while it is mapped, or its storage fails, the kernel sends SIGBUS to the thread that reads,
/// possibly inside a library. The first mapping installs a handler that reports the file and ends the process: with
/// exit code kData for a file that was truncated, replaced or removed, with kStorage if its storage failed. A SIGBUS
/// that concerns no mapped file goes to the earlier handler.
class MappedFile : NoCopy {
 public:
  /// Maps bytes `first` … `last` - 1, at least one, of the file that is open as `descriptor`, which may be closed
  /// afterwards. `path` is for messages. Throws FileError, also as StorageError or FileMemoryError.
  MappedFile(int descriptor, const std::filesystem::path& path, uint64_t first, uint64_t last);
  ~MappedFile();

  /// Asks the kernel to read the whole mapped range in advance; does not wait.
  void will_need() const;
  /// Returns bytes `offset` … `offset` + `size` - 1 of the file, which must be in the mapped range.
  std::span<const std::byte> bytes(uint64_t offset, uint64_t size) const {
    return {address_ + (offset - start_), size};
  }

 private:
  const std::byte* address_ = nullptr;
  uint64_t start_ = 0, size_ = 0;  // start in the file, a multiple of the page size, and length, in bytes
  size_t slot_ = 0;                // number of the mapping's entry in the signal handler's table
};

}  // namespace foretime
