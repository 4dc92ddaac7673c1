#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace foretime::cli {

/// What the rankings.csv `name` below the folder `root` (base/foreign_file.h) says of its groups: {"groups": [{"set",
/// "group", "candidates", "failed", "kendall_tau", "top1_slowdown", "top5_slowdown", "points": [[rank, score,
/// predicted, measured], …]}], "total", "cut"}. Metrics are of the candidates that ran; null where they are not
/// defined. `points` of at most kMostPoints candidates of a group, evenly chosen by rank, of the first kMostGroups
/// groups. `cut`: the file is larger than what is read of it. Without such a file there are no groups. Throws
/// HistoryError for a file of other columns, and FileError.
nlohmann::json rankings_of(const std::filesystem::path& root, const std::filesystem::path& name);

}  // namespace foretime::cli
