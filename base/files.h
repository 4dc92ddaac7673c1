#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace foretime {

/// Reports a file that cannot be opened, read or written. The message has the file and the system's text.
struct FileError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// Reports a failure of the storage rather than of the input: a full disk or quota, an I/O error, a read-only or stale
/// file system. The same command may succeed later or on another machine.
struct StorageError : ErrorOf<kStorage, FileError> {
  using ErrorOf::ErrorOf;
};

/// Reports storage that was not reached: a stale handle, too many open files. The stored files may be intact.
struct UnreachableError : ErrorOf<kStorage, StorageError> {
  using ErrorOf::ErrorOf;
};

/// Reports insufficient memory to read or map a file.
struct FileMemoryError : ErrorOf<kOutOfMemory, FileError> {
  using ErrorOf::ErrorOf;
};

/// Returns whether an errno reports a failure of the storage (StorageError) rather than a mistake in a path or file.
bool is_storage_failure(int error);
/// The suffix of temporary files that are renamed into place once complete.
inline constexpr const char* kAsideSuffix = ".foretime-tmp";
/// Throws an exception for the errno `error`: UnreachableError, StorageError, FileMemoryError or else FileError. The
/// message is "PATH: DOING: system's text", where PATH is the final name if `path` is an AtomicFile's temporary file.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const std::string& doing, int error);

/// Declares for its lifetime that this process fills a folder, such as the directory of its run. throw_write_error then
/// throws StorageError for paths in `folder`, whatever errno says: a folder that was moved away, or a withdrawn
/// permission, is no mistake in the settings or the data, and the same command may succeed later.
class OwnedFolder {
 public:
  explicit OwnedFolder(const std::filesystem::path& folder);
  ~OwnedFolder();
  OwnedFolder(const OwnedFolder&) = delete;
  OwnedFolder& operator=(const OwnedFolder&) = delete;

 private:
  std::filesystem::path folder_;
};

/// Throws the exception of throw_file_error for a failed write, but StorageError for a path in a live OwnedFolder.
[[noreturn]] void throw_write_error(const std::filesystem::path& path, const std::string& doing, int error);

/// Represents a file that is open for writing. The destructor closes it without syncing and ignores errors.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Writes all bytes at the current position.
  virtual void write(std::string_view bytes) = 0;
  virtual void seek(uint64_t offset) = 0;  // sets the position of the next write, in bytes from the start
  /// Waits until all written bytes are on disk.
  virtual void sync() = 0;
  /// Closes the file. A network file system may report a full disk only now.
  virtual void close() = 0;
  /// Returns a descriptor for copy_file_range and similar calls; -1 if there is none.
  virtual int descriptor() const { return -1; }
};

/// Represents a file that is open for reading.
class InputFile {
 public:
  virtual ~InputFile() = default;
  /// Fills `buffer` with the next bytes of the file and returns their number, which is smaller than the buffer only at
  /// the end of the file. Throws FileError or StorageError.
  virtual size_t read(std::span<char> buffer) = 0;
  /// Returns the size in bytes that the file had when it was opened.
  virtual uint64_t size() const = 0;
  /// Returns the descriptor, or -1 for a file of a simulation.
  virtual int descriptor() const { return -1; }
};

/// Represents the file system as far as results depend on it: files that others read, and their survival of a power
/// loss. A simulation replaces it. Every function throws FileError, or StorageError.
class Files {
 public:
  using Path = std::filesystem::path;
  enum class Open { replace, create, append };

  virtual ~Files() = default;
  /// Opens or makes a file for writing. `replace` empties it, `append` writes at its end, `create`: null if it exists.
  virtual std::unique_ptr<OutputFile> open(const Path& path, Open how) = 0;
  virtual std::string read(const Path& path) = 0;  // returns the bytes of a file
  virtual bool exists(const Path& path) = 0;       // follows links; throws only StorageError
  virtual bool is_folder(const Path& path) = 0;    // true also for a link to one; throws only StorageError
  /// Returns the paths of a folder's entries, sorted; empty if the folder does not exist.
  virtual std::vector<Path> list(const Path& folder) = 0;
  /// Returns whether a folder has no entries, or does not exist.
  virtual bool is_empty(const Path& folder) { return list(folder).empty(); }
  /// Returns the size of a file in bytes.
  virtual uint64_t size(const Path& path) { return read(path).size(); }
  /// Opens the file `folder`/`name`, which others may have written; returns null if there is none. Only for
  /// base/foreign_file.h, which other code calls. The default reads the whole file into memory.
  virtual std::unique_ptr<InputFile> open_below(const Path& folder, const Path& name);
  /// Returns whether `folder`/`name` exists. Only for base/foreign_file.h.
  virtual bool exists_below(const Path& folder, const Path& name);
  /// Makes a folder and its missing parents; no error if it exists.
  virtual void create_folders(const Path& path) = 0;
  /// Makes a folder, whose parent must exist. Returns false if the folder exists.
  virtual bool create_folder(const Path& path) = 0;
  /// Renames a file or folder, and replaces an existing file `to`.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Exchanges the names of two files or folders in one step. Returns false if this file system cannot.
  virtual bool exchange(const Path& a, const Path& b) = 0;
  /// Makes `to` another name (hard link) of the file `from`. Returns false, without an error, if that fails.
  virtual bool link(const Path& /*from*/, const Path& /*to*/) { return false; }
  /// Removes a file, or a folder with its content; no error if it does not exist.
  virtual void remove(const Path& path) = 0;
  /// Waits until the names in a folder are on disk.
  virtual void sync_folder(const Path& path) = 0;
};

/// Returns whether `path` is `folder` or inside it, by names alone: /data2 is not inside /data, but /data/../x is.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Returns the file system of this machine.
Files& real_files();
/// Returns the file system of this thread: that of the innermost live FilesScope, or else real_files().
Files& files();

/// Returns whether `path` leads to a regular file; false also where that cannot be known (no permission, links in a
/// circle).
bool is_file(const std::filesystem::path& path);

/// Holds a new folder; the destructor removes it with its content.
class ScratchFolder {
 public:
  /// Makes a folder whose path is `beginning` followed by six random characters. Throws FileError.
  explicit ScratchFolder(const std::filesystem::path& beginning);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Replaces the file system of this thread (files()) during its lifetime.
class FilesScope {
 public:
  explicit FilesScope(Files& files);
  ~FilesScope();
  FilesScope(const FilesScope&) = delete;
  FilesScope& operator=(const FilesScope&) = delete;

 private:
  Files* before_;
};

}  // namespace foretime
