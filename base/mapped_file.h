#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace foretime {

/// A range of a file, mapped to be read.
///
/// The bytes of a file that is cut while it is mapped, or that its storage no longer delivers, cannot be read: the
/// kernel then sends SIGBUS to whichever thread tried, a library's among them. Once a file has been mapped, a handler
/// of that signal says which file it was and ends the process: with exit code kData for a file that was cut or
/// replaced, with kStorage where its storage failed. Signals from elsewhere go to the handler that was there before.
class MappedFile {
 public:
  /// Bytes `first` … `last` - 1 of the file that is open as `descriptor`, which may be closed then. `path` is for
  /// messages. Throws FileError, StorageError.
  MappedFile(int descriptor, const std::filesystem::path& path, uint64_t first, uint64_t last);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Lets the kernel read all of it ahead.
  void will_need() const;
  /// Bytes `offset` … `offset` + `size` - 1 of the file, inside of the range.
  std::span<const std::byte> bytes(uint64_t offset, uint64_t size) const {
    return {address_ + (offset - start_), size};
  }

 private:
  const std::byte* address_ = nullptr;
  uint64_t start_ = 0, size_ = 0;
  size_t slot_ = 0;
};

}  // namespace foretime
