#pragma once

#include <string>
#include <vector>

#include "jobs/redis/store_record.h"

namespace foretime::jobs {

class EmbeddedFolder;

/// Describes what was done to an append-only file before a server loads it.
struct PreparedStore {
  StoreRecord record{};  // record of the files, which the guardian keeps up to date
  /// Set if the manifest was repaired: power was lost, or the folder is a copy that was taken while a server ran. The
  /// last changes may be missing in such a copy.
  bool repaired_manifest = false;
  std::vector<std::string> accepted_losses{};  // a sentence for each file that is missing or damaged
};

/// Prepares the append-only file of a folder for a server after a loss of power. No server may run. If there is none,
/// makes an empty one and syncs its name to disk. Repairs the manifest (repaired_manifest). Cuts zero bytes at the ends
/// of increments: some file systems leave them after a loss of power, and Redis refuses to load them. Removes the
/// temporary files of an unfinished rewrite.
///
/// Throws RedisDataLost if less is there than was written (store_record.h), or if files have no manifest. With
/// `accept_loss`, uses the files that are left, but throws RedisUnavailable if they cannot be loaded. Throws
/// RedisUnavailable or RedisStorageError if a file cannot be read or written.
PreparedStore prepare_append_only(const EmbeddedFolder& folder, bool accept_loss);

/// Throws RedisDataLost if the append-only file has less than was written (store_record.h), and RedisUnavailable or
/// RedisStorageError if a file cannot be read. Changes nothing.
void check_nothing_lost(const EmbeddedFolder& folder);

}  // namespace foretime::jobs
