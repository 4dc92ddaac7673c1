#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/descriptor.h"

namespace foretime::jobs {

class EmbeddedFolder;

/// Says whose guardian serves the embedded Redis of a folder: the file `owner` in it, with host, boot id and process
/// number of the guardian, a line each. flock answers for one machine only where a mount keeps locks to itself (NFS
/// with `nolock` or `local_lock`); this file keeps a second machine's server away from the same data. One process makes
/// it (O_EXCL, which NFS keeps), the guardian touches it every kOwnerBeatMs and removes it at its end.
struct FolderOwner {
  std::string host, boot;
  int64_t pid = 0;  // 0: its guardian has not begun yet
  ino_t inode = 0;
  std::chrono::nanoseconds touched{};  // modification time on the clock of the file's server
};

/// After so long a silence another machine's guardian counts as dead.
constexpr std::chrono::seconds kOwnerStale{30};

/// Returns the owner; empty where there is none. Throws RedisUnavailable or RedisStorageError where it cannot be read.
std::optional<FolderOwner> owner_of(const EmbeddedFolder& folder);

/// Makes `owner` for a guardian of this process. The caller holds guardian.lock, so that no guardian of this machine
/// lives; for signs of life of another machine's it is waited up to kOwnerStale, and no longer than `limit`. Throws
/// RedisUnavailable, which names host and process of the other one. `start_lock` is open for writing, and is touched to
/// learn the file system's time.
Descriptor claim_ownership(const EmbeddedFolder& folder, const Descriptor& start_lock,
                           std::chrono::steady_clock::time_point limit);

}  // namespace foretime::jobs
