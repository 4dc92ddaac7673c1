#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "history/history.h"

namespace foretime::history {

/// Runs are read as files that others have written (base/foreign_file.h): `folder` is trusted, and `run` is the path of
/// a run directory below it, of which no part may be a symbolic link; empty for `folder` itself. A run directory may
/// also be that of a job of an agent (RUNS/JOB), which holds a folder for each attempt.

/// The most bytes of a metrics.jsonl.
inline constexpr uint64_t kMostMetrics = uint64_t{4} << 30;

/// Returns whether a folder holds what `read_run` reads.
bool is_run(const std::filesystem::path& folder, const std::filesystem::path& run = {});

/// Returns the name below `folder` of a file of a run, or of the newest attempt of a job that has one; empty if there
/// is none.
std::filesystem::path file_of_run(const std::filesystem::path& folder, const std::filesystem::path& run,
                                  const std::string& name);

/// Returns all that a run's metrics.jsonl has of training and of evaluations but the final one. Attempts of a job each
/// continue from a checkpoint of an earlier one: steps that were done twice count once, as they were done last. Lines
/// that are no JSON object, as a killed run may leave, are left out. Throws HistoryError if the folder has neither, and
/// FileError, also if there are more than `most_bytes` to read.
History read_run(const std::filesystem::path& folder, const std::filesystem::path& run = {},
                 uint64_t most_bytes = kMostMetrics);

}  // namespace foretime::history
