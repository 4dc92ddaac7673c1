#pragma once

#include <filesystem>

#include "coordinator/checkpoint_store.h"

/// Reads the checkpoint that commands use: of a run, the best one or, if none was recorded or the best one has not been
/// written, the newest one. If the path names a single checkpoint, no other one is read.
namespace foretime::coordinator {

/// Reads the best or newest checkpoint of a run, or the single checkpoint `path`. If the checkpoint of a run (or
/// best.json) is damaged or missing, reads the run's newest intact one, with a warning that names both; if there is
/// none, throws the error. Throws StorageError if the storage failed, NewerFormat, and RunError as read_checkpoint.
StoredCheckpoint read_best_or_newest(const std::filesystem::path& path);

/// Reads the checkpoint of read_best_or_newest(). Where that function warns, throws RunError, which names the newest
/// intact checkpoint. Otherwise throws the errors of read_best_or_newest().
StoredCheckpoint read_best_only(const std::filesystem::path& path);

}  // namespace foretime::coordinator
