#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace foretime {

/// A file that cannot be opened, read or written. The message names the file and says what the system says.
struct FileError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// A file that others see either complete or not at all: its bytes are written to a file beside it, synced, and renamed
/// into place by commit(). Without commit() the file beside it is removed. Everything throws FileError.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Where the bytes are until commit(): `path` with a suffix that ends in ".foretime-tmp".
  const std::filesystem::path& aside() const { return aside_; }
  /// Buffered; for seeking and for the descriptor.
  std::FILE* stream() const { return stream_.get(); }
  void write(std::string_view bytes);
  void flush();
  /// Syncs the file, renames it and syncs its folder.
  void commit();
  /// Throws what errno says of `call` on this file.
  [[noreturn]] void fail(const char* call) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_, aside_;
  std::unique_ptr<std::FILE, Close> stream_;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Writes `bytes` under their final name and syncs them: for a folder that replace_folder() puts in place as a whole.
void write_synced(const std::filesystem::path& path, std::string_view bytes);

/// Renames the folder `aside` to `path`, where an older one is removed, and syncs both folders and the one above.
/// Throws FileError.
void replace_folder(const std::filesystem::path& aside, const std::filesystem::path& path);

}  // namespace foretime
