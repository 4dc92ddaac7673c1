#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"

/// Access to files that others may have written: everything in run directories, attempts, artifacts, experiments and
/// checkpoints, which the job, its program or another user of a shared folder can replace at any time.
///
/// `folder` is trusted: the caller names it, and links that lead to it are followed. `name` is relative to `folder` and
/// not trusted. No component of `name` may be a symbolic link, wherever the link points to; links to files of the same
/// folder are refused as well, so that the result does not depend on where a folder was copied. `..` and absolute names
/// are refused. Only regular files are opened, and opening waits for nothing: not for the writer of a FIFO, not for the
/// holder of a lease. The check and the use are on the same descriptor, so nobody can exchange the file in between.
///
/// A simulated file system (FilesScope) answers from its own files.
namespace foretime {

/// Reports a file that must not be read: a FIFO, socket, device, folder or symbolic link in place of a regular file, a
/// name that leaves the folder, more bytes than allowed, or a file that another process has leased. The message names
/// the file and what was found. Whoever wrote the file can fix it; trying again does not help.
struct ForeignFileError : ErrorOf<kData, FileError> {
  using ErrorOf::ErrorOf;
};

/// Opens `folder`/`name` for reading. Returns null if there is no such file. Throws ForeignFileError, also for a file
/// of more than `most_bytes` bytes, FileError if the file may not be read, and StorageError.
std::unique_ptr<InputFile> open_foreign(const std::filesystem::path& folder, const std::filesystem::path& name,
                                        uint64_t most_bytes);

/// Returns the bytes of `folder`/`name`; nullopt if there is no such file. Throws the errors of `open_foreign`, also if
/// the file grows beyond `most_bytes` bytes while it is read.
std::optional<std::string> read_foreign(const std::filesystem::path& folder, const std::filesystem::path& name,
                                        uint64_t most_bytes);

/// Calls `take` with each line of `folder`/`name`, without its line feed. Lines longer than 1 MiB are left out, so
/// memory is bounded. Returns false if there is no such file. Throws the errors of `read_foreign`.
bool read_foreign_lines(const std::filesystem::path& folder, const std::filesystem::path& name, uint64_t most_bytes,
                        const std::function<void(std::string_view line)>& take);

/// Returns whether `folder` has an entry `name` of any kind, also a link or FIFO, which reading then refuses; false if
/// `name` leads through a link or out of the folder, or may not be looked up. Throws StorageError.
bool foreign_exists(const std::filesystem::path& folder, const std::filesystem::path& name);

/// Returns the time at which `folder`/`name`, of any kind, was last written; nullopt where foreign_exists is false.
/// Always reads the file system of the machine, not a simulated one. Throws StorageError.
std::optional<std::filesystem::file_time_type> foreign_write_time(const std::filesystem::path& folder,
                                                                  const std::filesystem::path& name);

/// Opens `folder`/`name` as `open_foreign` does, but always on the file system of the machine and of any size.
std::unique_ptr<InputFile> open_real_below(const std::filesystem::path& folder, const std::filesystem::path& name);
/// Does what `foreign_exists` does on the machine's file system, but throws FileError for names that it cannot look up.
bool real_exists_below(const std::filesystem::path& folder, const std::filesystem::path& name);

}  // namespace foretime
