#pragma once

#include <filesystem>

#include "coordinator/checkpoint_store.h"

/// The checkpoint that commands read for a run: its best one or, if none was recorded, its newest one. A path to a
/// checkpoint folder is never replaced by another.
namespace foretime::coordinator {

/// Reads the checkpoint of read_checkpoint() or, if that checkpoint of a run (or best.json) is damaged or missing, the
/// newest intact one of the run; a warning on standard error then names both. If no other is intact, it throws the
/// first one's error. Throws StorageError if the storage failed, since the checkpoint may be intact.
StoredCheckpoint read_best_or_newest(const std::filesystem::path& path);

/// Reads the checkpoint of read_checkpoint(). If that checkpoint of a run (or best.json) is damaged or missing but
/// another one is intact, RunError names both, because the caller's result would outlive a warning.
StoredCheckpoint read_best_only(const std::filesystem::path& path);

}  // namespace foretime::coordinator
