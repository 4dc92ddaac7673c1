#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/descriptor.h"

namespace foretime::jobs {

class EmbeddedFolder;

/// Names the guardian that serves the embedded Redis of a folder. The file `owner` in that folder has host, boot id and
/// process number of the guardian, a line each. On mounts whose locks other machines do not see (NFS with `nolock` or
/// `local_lock`), this file keeps a second machine's server away from the same data. The guardian touches the file
/// every kOwnerBeatMs and removes it at its end.
struct FolderOwner {
  std::string host, boot;              // host name and boot id of the guardian's machine
  int64_t pid = 0;                     // process number; 0: the guardian has not begun yet
  ino_t inode = 0;                     // inode of the file `owner`
  std::chrono::nanoseconds touched{};  // modification time of the file, on the clock of the file server
};

/// A guardian of another machine that has not touched the file `owner` for this long counts as dead.
constexpr std::chrono::seconds kOwnerStale{30};

/// Returns the owner in the file `owner`; empty if the file does not exist. An incomplete file gives pid 0, and
/// an empty host and boot unless the lines of both are whole. Throws RedisUnavailable or RedisStorageError if the file
/// cannot be read.
std::optional<FolderOwner> owner_of(const EmbeddedFolder& folder);

/// Makes the file `owner` for a guardian that this process starts, and returns it open for writing. The caller holds
/// guardian.lock, so that no guardian of this machine lives. If the file names a guardian of another machine, waits up
/// to kOwnerStale for it to touch the file, and replaces the file if it does not. Throws RedisUnavailable, which names
/// host and process, if that guardian lives or `limit` passes, and the errors of owner_of() for storage. Touches the
/// file of `start_lock`, which is open for writing, to learn the file system's time.
Descriptor claim_ownership(const EmbeddedFolder& folder, const Descriptor& start_lock,
                           std::chrono::steady_clock::time_point limit);

}  // namespace foretime::jobs
