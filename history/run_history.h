#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "history/history.h"

namespace foretime::history {

/// Reads runs as untrusted files (base/foreign_file.h): `folder` is trusted, and `run` is the path of a run directory
/// below it, which may contain no symbolic link; empty for `folder` itself. A run directory may also be that of an
/// agent's job (RUNS/JOB), which holds a folder for each attempt.

/// Bounds the bytes of a metrics.jsonl.
inline constexpr uint64_t kMostMetrics = uint64_t{4} << 30;

/// Returns whether `read_run` can read a folder.
bool is_run(const std::filesystem::path& folder, const std::filesystem::path& run = {});

/// Returns the name below `folder` of a file of a run, or of the newest attempt of a job that has one; empty if there
/// is none.
std::filesystem::path file_of_run(const std::filesystem::path& folder, const std::filesystem::path& run,
                                  const std::string& name);

/// Returns all entries of a run's metrics.jsonl about training and evaluations, except the final one. Attempts of a job
/// each continue from a checkpoint of an earlier one: of repeated steps the last one counts. Lines that are not JSON
/// objects, as left by a killed run, are skipped. Throws HistoryError if the folder has neither a run nor attempts, and
/// FileError, also if there are more than `most_bytes` to read.
History read_run(const std::filesystem::path& folder, const std::filesystem::path& run = {},
                 uint64_t most_bytes = kMostMetrics);

}  // namespace foretime::history
