#pragma once

#include <string>
#include <vector>

#include "jobs/redis/store_record.h"

namespace foretime::jobs {

class EmbeddedFolder;

/// Says what was done to an append-only file before a server loads it.
struct PreparedStore {
  StoreRecord record{};  // the record that the guardian continues
  /// After a loss of power, or where the folder is a copy that was taken while a server ran; of that the last changes
  /// may be missing.
  bool repaired_manifest = false;
  std::vector<std::string> accepted_losses{};  // a sentence for each loss
};

/// Makes the append-only file of a folder fit for a server, whatever a loss of power has left. No server may run.
/// Where there is none, an empty one is made, whose name is on disk before anything is written to it, which Redis does
/// not ensure. The manifest is repaired. Zero bytes at the ends of increments are cut: some file systems leave them
/// there, what Redis writes never ends with one, and it refuses to load them. What a rewrite had begun is removed.
///
/// Throws RedisDataLost where less is there than was written (store_record.h), or files without a manifest, unless
/// `accept_loss`: then what is left is used. Else throws as EmbeddedFolder does.
PreparedStore prepare_append_only(const EmbeddedFolder& folder, bool accept_loss);

/// Throws RedisDataLost where less is there than was written, and changes nothing.
void check_nothing_lost(const EmbeddedFolder& folder);

}  // namespace foretime::jobs
