#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

/// Returns the board's view of the folders that `foretime experiment` writes.
namespace foretime::cli {

/// Returns whether `folder`, a path below `root`, is an experiment's: it has a summary.md. Files are opened by
/// base/foreign_file.h.
bool is_experiment(const std::filesystem::path& root, const std::filesystem::path& folder);
/// Returns {"name", "summary": its Markdown, "columns": metrics, "trials": [{"entry",
/// "kind", "fraction", "seed", "values": {metric: value in the unit of "units"}}], "units", "main": runs with all
/// training data, at most 24, as names below `root`, "damaged": messages about skipped files}. `folder` is a path below
/// `root`, "." for `root` itself.
nlohmann::json experiment_of(const std::filesystem::path& root, const std::filesystem::path& folder);

}  // namespace foretime::cli
