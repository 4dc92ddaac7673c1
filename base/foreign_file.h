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
/// `folder` is trusted: the caller names it, and links that lead to it are followed. `name` is relative to it and is
/// not trusted. No component of `name` may be a symbolic link, wherever the link points to; links to files of the same
/// folder are refused as well, so that the result does not depend on where a folder was copied. `..` and absolute names
/// are refused. Only regular files are opened, and opening waits for nothing: not for the writer of a FIFO, not for the
/// holder of a lease. The check and the use are on the same descriptor, so nobody can exchange the file in between.
///
/// A simulated file system (FilesScope) answers from its own files.
namespace foretime {

/// A file that must not be read: a FIFO, socket, device, folder or symbolic link in place of a regular file, a name
/// that leaves the folder, or more bytes than expected. The message names the file and what it is. Whoever wrote the
/// file can fix it; trying again does not help.
struct ForeignFileError : ErrorOf<kData, FileError> {
  using ErrorOf::ErrorOf;
};

/// Opens `folder`/`name` for reading. Returns null if there is no such file. Throws ForeignFileError, FileError if it
/// may not be read, StorageError.
std::unique_ptr<InputFile> open_foreign(const std::filesystem::path& folder, const std::filesystem::path& name,
                                        uint64_t most_bytes);

/// Returns the bytes of `folder`/`name`, or nothing if there is no such file. Throws like `open_foreign`, also if the
/// file grows beyond `most_bytes` while it is read.
std::optional<std::string> read_foreign(const std::filesystem::path& folder, const std::filesystem::path& name,
                                        uint64_t most_bytes);

/// Calls `take` with each line of `folder`/`name`, without its line end, using a bounded amount of memory. Lines longer
/// than 1 MiB are left out. Returns false if there is no such file. Throws like `read_foreign`.
bool read_foreign_lines(const std::filesystem::path& folder, const std::filesystem::path& name, uint64_t most_bytes,
                        const std::function<void(std::string_view line)>& take);

/// Returns whether `folder` has an entry `name`, of whatever kind: a link or FIFO exists, and reading it then reports
/// what it is. Entries behind a symbolic link do not exist. Throws StorageError.
bool foreign_exists(const std::filesystem::path& folder, const std::filesystem::path& name);

/// Returns when `folder`/`name`, of whatever kind, was written to last, or nothing if it does not exist. Throws
/// StorageError. Always asks the file system of the machine.
std::optional<std::filesystem::file_time_type> foreign_write_time(const std::filesystem::path& folder,
                                                                  const std::filesystem::path& name);

/// Does what `open_foreign` does, on the file system of the machine and without a limit.
std::unique_ptr<InputFile> open_real_below(const std::filesystem::path& folder, const std::filesystem::path& name);
/// Does what `foreign_exists` does, on the file system of the machine.
bool real_exists_below(const std::filesystem::path& folder, const std::filesystem::path& name);

}  // namespace foretime
