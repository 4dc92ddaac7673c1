#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/files.h"

namespace foretime {

/// A file that others see either complete or not at all: its bytes are written to a file beside it, synced, and renamed
/// into place by commit(). Without commit() the file beside it is removed. Everything throws FileError.
class AtomicFile {
 public:
  /// `remove`: what killed processes left of the same file goes, and this one is locked, so that others tell it from
  /// what was left (base/halves.h). For files that may be large.
  enum class OldHalves { keep, remove };

  explicit AtomicFile(std::filesystem::path path, OldHalves old = OldHalves::keep);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Where the bytes are until commit(): `path` with a suffix that ends in ".foretime-tmp".
  const std::filesystem::path& aside() const { return aside_; }
  /// Buffered.
  void write(std::string_view bytes);
  /// The next bytes go there.
  void seek(uint64_t offset);
  void flush();
  /// Of the flushed file; -1 where the file system has none.
  int descriptor() const { return file_->descriptor(); }
  /// Syncs the file, renames it and syncs its folder.
  void commit();

 private:
  std::filesystem::path path_, aside_;
  std::unique_ptr<OutputFile> file_;
  std::string buffer_;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           AtomicFile::OldHalves old = AtomicFile::OldHalves::keep);

/// Writes `bytes` under their final name and closes the file: a full disk of a file server, or a quota, may be told
/// only then. For files that are made anew after a loss of power. Throws FileError.
void write_whole(const std::filesystem::path& path, std::string_view bytes);

/// Writes `bytes` under their final name and syncs them: for a folder that replace_folder() puts in place as a whole.
void write_synced(const std::filesystem::path& path, std::string_view bytes);

/// Makes a folder, and those above it that are missing; after a loss of power they are still there.
void create_folders_synced(const std::filesystem::path& path);

/// Puts the folder `aside` in the place of `path`, and syncs both folders and the one above. An older folder of that
/// name is exchanged with it in one step and then removed; where the file system cannot exchange, it is moved away
/// first, and for a moment there is none.
void replace_folder(const std::filesystem::path& aside, const std::filesystem::path& path);

/// Removes a folder so that others see it whole or not at all, also after a loss of power.
void remove_folder(const std::filesystem::path& path);

}  // namespace foretime
