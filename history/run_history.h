#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "history/history.h"

namespace foretime::history {

/// Reads runs as untrusted files (base/foreign_file.h): `folder` is trusted, and `run` is the path of a run directory
/// below it, which may contain no symbolic link; empty for `folder` itself. The directory of an agent's job (RUNS/JOB),
/// which holds a run directory attempt-N for each attempt, can be read like a run.

/// Default limit of the bytes that read_run reads.
inline constexpr uint64_t kMostMetrics = uint64_t{4} << 30;

/// Returns whether a folder or an attempt-N in it has a metrics.jsonl for `read_run`. Throws FileError.
bool is_run(const std::filesystem::path& folder, const std::filesystem::path& run = {});

/// Returns the path relative to `folder` of the file `name` in the run directory, or else in the newest attempt of a
/// job that has this file; empty if none has it. Throws FileError.
std::filesystem::path file_of_run(const std::filesystem::path& folder, const std::filesystem::path& run,
                                  const std::string& name);

/// Returns the numbers (not `straggler_rank`) of the lines of kinds "train" and "eval" of a run's metrics.jsonl, or
/// else of a job's attempts in their order. Attempts each continue from a checkpoint of an earlier one: of repeated
/// steps the last one counts. Other lines, such as the last one of a killed run, are skipped. Throws HistoryError if
/// the folder has neither a run nor attempts, and FileError, also if all files have more than `most_bytes` bytes.
History read_run(const std::filesystem::path& folder, const std::filesystem::path& run = {},
                 uint64_t most_bytes = kMostMetrics);

}  // namespace foretime::history
