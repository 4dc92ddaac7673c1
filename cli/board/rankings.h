#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace foretime::cli {

/// Returns the groups of the rankings.csv `name` below the folder `root` (base/foreign_file.h): {"groups": [{"set",
/// "group", "candidates", "failed", "kendall_tau", "top1_slowdown", "top5_slowdown", "points": [[rank, score,
/// predicted, measured], …]}], "total", "cut"}. Metrics cover the successful candidates; undefined ones are null.
/// `points` has at most kMostPoints candidates of a group, evenly chosen by rank, for the first kMostGroups groups.
/// `cut`: the file was only read in part. Returns no groups without such a file. Throws HistoryError for a file with
/// other columns, and FileError.
nlohmann::json rankings_of(const std::filesystem::path& root, const std::filesystem::path& name);

}  // namespace foretime::cli
