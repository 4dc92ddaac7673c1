#pragma once

#include <filesystem>

#include "coordinator/checkpoint_store.h"

/// What commands read for a run: its best checkpoint or, where none was noted, its newest one. A checkpoint folder that
/// is named itself is never replaced by another.
namespace foretime::coordinator {

/// Reads what read_checkpoint() would or, where that checkpoint of a run (or best.json) is damaged or missing, the
/// newest intact one of the run; a warning on standard error then names both. Throws what is wrong with the first where
/// no other is intact, and StorageError where the storage failed: it may be whole.
StoredCheckpoint read_best_or_newest(const std::filesystem::path& path);

/// Reads what read_checkpoint() would. Where that checkpoint of a run (or best.json) is damaged or missing and another
/// one is intact, RunError names both: what is made from a model outlives a warning.
StoredCheckpoint read_best_only(const std::filesystem::path& path);

}  // namespace foretime::coordinator
