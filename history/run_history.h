#pragma once

#include <filesystem>
#include <string>

#include "history/history.h"

namespace foretime::history {

/// Whether a folder holds what `read_run` reads.
bool is_run(const std::filesystem::path& folder);

/// A file of a run, of a job's folder that of its newest attempt that has one; empty where there is none.
std::filesystem::path file_of_run(const std::filesystem::path& folder, const std::string& name);

/// All that a run's metrics.jsonl has of training and of evaluations but its final one. `folder`: a run directory, or
/// that of a job of an agent (RUNS/JOB), whose attempts each go on from a checkpoint of the ones before: steps that
/// were done twice count once, as they were done last. A line that is no JSON object, as a killed run may leave, is
/// left out. Throws HistoryError where the folder has neither, and FileError.
History read_run(const std::filesystem::path& folder);

}  // namespace foretime::history
