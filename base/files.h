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

/// A file that cannot be opened, read or written. The message names the file and says what the system says.
struct FileError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// The storage failed, not the input: a full disk or quota, an I/O error, a read-only or stale file system. The same
/// command may succeed later or on another machine.
struct StorageError : ErrorOf<kStorage, FileError> {
  using ErrorOf::ErrorOf;
};

/// The storage was not reached: a stale handle, too many open files. What is stored there may be whole.
struct UnreachableError : ErrorOf<kStorage, StorageError> {
  using ErrorOf::ErrorOf;
};

/// Memory that was not enough to read or map a file.
struct FileMemoryError : ErrorOf<kOutOfMemory, FileError> {
  using ErrorOf::ErrorOf;
};

/// Whether an errno tells of the storage (StorageError) rather than of what is stored there.
bool is_storage_failure(int error);
/// How the names end of what is written aside, to be renamed into place when it is whole.
inline constexpr const char* kAsideSuffix = ".foretime-tmp";
/// Throws UnreachableError, StorageError, FileMemoryError or FileError: "PATH: DOING: what the system says"; of a file
/// aside, the name that it will have.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, const std::string& doing, int error);

/// A folder that this process itself fills, such as the directory of its run. While an object lives, every write that
/// fails below `folder` is a StorageError, whatever errno says: a folder that somebody has moved away, or a permission
/// that was withdrawn, is no mistake in the settings or the data, and the same command may succeed later.
class OwnedFolder {
 public:
  explicit OwnedFolder(const std::filesystem::path& folder);
  ~OwnedFolder();
  OwnedFolder(const OwnedFolder&) = delete;
  OwnedFolder& operator=(const OwnedFolder&) = delete;

 private:
  std::filesystem::path folder_;
};

/// Throws what throw_file_error throws for a write that failed, and StorageError below an OwnedFolder.
[[noreturn]] void throw_write_error(const std::filesystem::path& path, const std::string& doing, int error);

/// A file that is being written. Closed, not synced, by its destructor, which keeps errors to itself.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// All of the bytes, at the present position.
  virtual void write(std::string_view bytes) = 0;
  virtual void seek(uint64_t offset) = 0;
  /// Returns when what was written is on disk.
  virtual void sync() = 0;
  /// Ends it. A file system on the network may tell only now that its disk is full.
  virtual void close() = 0;
  /// For copy_file_range and the like; -1: there is none, write() has to do.
  virtual int descriptor() const { return -1; }
};

/// A file that is open for reading.
class InputFile {
 public:
  virtual ~InputFile() = default;
  /// Reads the next bytes and returns how many: fewer than `buffer` holds at the end of the file only. Throws
  /// FileError, StorageError.
  virtual size_t read(std::span<char> buffer) = 0;
  /// Returns the size in bytes that the file had when it was opened.
  virtual uint64_t size() const = 0;
  /// Returns the descriptor, or -1 for a file of a simulation.
  virtual int descriptor() const { return -1; }
};

/// The file system as far as results depend on it: what is written for others to read, and whether it is there after a
/// loss of power. A simulation puts another one in its place. Every function throws FileError, or StorageError.
class Files {
 public:
  using Path = std::filesystem::path;
  enum class Open { replace, create, append };

  virtual ~Files() = default;
  /// `create`: empty where the file is there already. `append`: made where it is not there.
  virtual std::unique_ptr<OutputFile> open(const Path& path, Open how) = 0;
  virtual std::string read(const Path& path) = 0;
  virtual bool exists(const Path& path) = 0;
  virtual bool is_folder(const Path& path) = 0;
  /// What lies in a folder, sorted; empty where it is not there.
  virtual std::vector<Path> list(const Path& folder) = 0;
  /// Whether a folder holds nothing, or is not there.
  virtual bool is_empty(const Path& folder) { return list(folder).empty(); }
  /// Bytes of a file.
  virtual uint64_t size(const Path& path) { return read(path).size(); }
  /// Opens a file that others may have written, for base/foreign_file.h, which callers use. Returns null if there is no
  /// such file. The default reads the whole file.
  virtual std::unique_ptr<InputFile> open_below(const Path& folder, const Path& name);
  /// Returns whether an entry of a folder that others may write exists, for base/foreign_file.h.
  virtual bool exists_below(const Path& folder, const Path& name);
  /// With those above it; no error where it is there.
  virtual void create_folders(const Path& path) = 0;
  /// False: it is there already.
  virtual bool create_folder(const Path& path) = 0;
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Exchanges two names in one step. False: this file system cannot.
  virtual bool exchange(const Path& a, const Path& b) = 0;
  /// Another name of a file. False: this file system has none, or not there.
  virtual bool link(const Path& /*from*/, const Path& /*to*/) { return false; }
  /// A file, or a folder with all that it holds; no error where it is not there.
  virtual void remove(const Path& path) = 0;
  /// Returns when the names in a folder are on disk.
  virtual void sync_folder(const Path& path) = 0;
};

/// The machine's own.
Files& real_files();
/// Of this thread: the machine's own, unless a FilesScope is alive.
Files& files();

/// Puts another file system in place for this thread.
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
