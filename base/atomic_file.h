#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/files.h"

namespace foretime {

/// Writes a file that others see either complete or not at all: bytes go to a temporary file next to it, which commit()
/// syncs and renames. Without commit() the destructor removes the temporary file. All functions throw FileError.
class AtomicFile {
 public:
  /// `remove` deletes temporary files that killed processes left of the same file, and locks this one, so that other
  /// processes do not delete it (base/partial_files.h). Meant for large files.
  enum class Leftovers { keep, remove };

  explicit AtomicFile(std::filesystem::path path, Leftovers old = Leftovers::keep);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Returns the path of the temporary file: `path` with a suffix that ends in ".foretime-tmp".
  const std::filesystem::path& aside() const { return aside_; }
  /// Writes bytes through a buffer.
  void write(std::string_view bytes);
  /// Sets the offset of the next bytes.
  void seek(uint64_t offset);
  void flush();
  /// Returns the descriptor of the flushed file; -1 if the file system has none.
  int descriptor() const { return file_->descriptor(); }
  /// Syncs the file, renames it and syncs its folder.
  void commit();

 private:
  std::filesystem::path path_, aside_;
  std::unique_ptr<OutputFile> file_;
  std::string buffer_;
};

/// Writes a file by AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           AtomicFile::Leftovers old = AtomicFile::Leftovers::keep);

/// Writes `bytes` under their final name and closes the file, because a full disk of a file server, or a quota, may be
/// reported only then. For files that are written again after a power loss. Throws FileError.
void write_whole(const std::filesystem::path& path, std::string_view bytes);

/// Writes `bytes` under their final name and syncs them, for a folder that replace_folder() moves as a whole.
void write_synced(const std::filesystem::path& path, std::string_view bytes);

/// Makes a folder and its missing parents, so that they survive a power loss.
void create_folders_synced(const std::filesystem::path& path);

/// Moves the folder `aside` to `path`, and syncs both folders and their parent. An older folder of that name is
/// exchanged in one step and then removed. If the file system cannot exchange, it is moved away first, and for a moment
/// there is no folder.
void replace_folder(const std::filesystem::path& aside, const std::filesystem::path& path);

/// Removes a folder so that others see it whole or not at all, also after a power loss.
void remove_folder(const std::filesystem::path& path);

}  // namespace foretime
