#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/files.h"
#include "base/no_copy.h"

namespace foretime {

/// Writes a file that others see either complete or not at all: bytes go to a temporary file in the same folder, which
/// commit() syncs and renames. Without commit() the destructor removes that file. All functions here throw FileError.
class AtomicFile : NoCopy {
 public:
  /// `remove` deletes the temporary files that killed writers of the same file have left, and locks the new temporary
  /// file, so that other processes do not delete it (base/partial_files.h). Meant for large files.
  enum class Leftovers { keep, remove };

  explicit AtomicFile(std::filesystem::path path, Leftovers old = Leftovers::keep);
  ~AtomicFile();

  const std::filesystem::path& path() const { return path_; }
  /// Returns the path of the temporary file: `path` with a suffix that ends in ".foretime-tmp".
  const std::filesystem::path& aside() const { return aside_; }
  /// Writes bytes through a buffer.
  void write(std::string_view bytes);
  void seek(uint64_t offset);  // offset of the next bytes from the start of the file
  void flush();                // writes the buffer to the temporary file, without syncing it
  /// Returns the descriptor of the temporary file, which lacks the bytes since the last flush(); -1 in a simulation.
  int descriptor() const { return file_->descriptor(); }
  /// Syncs the temporary file, renames it to path() and syncs the folder. The last call of an object.
  void commit();

 private:
  std::filesystem::path path_, aside_;
  std::unique_ptr<OutputFile> file_;
  std::string buffer_;
};

/// Writes a file that contains `bytes` by AtomicFile, and commits it.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           AtomicFile::Leftovers old = AtomicFile::Leftovers::keep);

/// Replaces the content of `path` by `bytes` in place, not atomically and without syncing, for files that are written
/// again after a power loss. Reports errors of closing, too, where a full disk of a file server may appear.
void write_whole(const std::filesystem::path& path, std::string_view bytes);

/// Replaces the content of `path` by `bytes` in place and syncs the file, but not its folder.
void write_synced(const std::filesystem::path& path, std::string_view bytes);

/// Makes a folder and its missing parents, so that they survive a power loss; nothing if the folder exists.
void create_folders_synced(const std::filesystem::path& path);

/// Syncs the folder `aside`, renames it to `path`, and syncs the parent folder. An older folder `path` is exchanged in
/// one step and then removed; if the file system cannot exchange names, `path` is missing for a moment.
void replace_folder(const std::filesystem::path& aside, const std::filesystem::path& path);

/// Removes a folder, which must exist, so that others see it whole or not at all, also after a power loss.
void remove_folder(const std::filesystem::path& path);

}  // namespace foretime
