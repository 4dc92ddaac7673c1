#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

/// The board's view of the folders that `foretime experiment` writes.
namespace foretime::cli {

/// Returns whether `folder`, a path below `root`, is that of an experiment: it has a summary.md (base/foreign_file.h).
bool is_experiment(const std::filesystem::path& root, const std::filesystem::path& folder);
/// Returns {"name", "summary": its Markdown, "columns": names of metrics, "units": {metric: unit}, "trials": [{"entry",
/// "kind", "fraction", "seed", "values": {metric: number}}], "main": at most 24 trials with all training data, or any
/// trials if there is no such one, as names below `root`, "damaged": messages about skipped files}. A missing file
/// leaves its part empty. `folder` is a path below `root`, "." for `root` itself.
nlohmann::json experiment_of(const std::filesystem::path& root, const std::filesystem::path& folder);

}  // namespace foretime::cli
