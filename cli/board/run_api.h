#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/board/trace.h"
#include "history/history.h"

/// Returns the board's view of run directories below one folder. Names are paths relative to it, without symbolic links
/// (base/foreign_file.h). An unreadable part of a run never hides the rest: answers have a list "damaged" of messages.
namespace foretime::cli {

/// Returns a history as JSON (history::to_json), thinned to what a page can draw: at most 2,000 points of a series, and
/// 200,000 of all.
nlohmann::json curves_of(const history::History& history);

/// Returns the run directories, including baselines of experiments, and the folders of experiments, newest first, at
/// most 1,000: {"runs": [{"name", "modified_ms"}], "total", "experiments": [{"name", "modified_ms"}]}.
nlohmann::json list_runs(const std::filesystem::path& root);
/// Returns {"name", "history", "settings", "comparison", "profile", "files", "damaged"}: texts of config.yaml,
/// comparison.txt and profile.txt of the newest attempt, and the existing files among kRunFiles. Throws
/// server::HttpError for an unknown run.
nlohmann::json show_run(const std::filesystem::path& root, const std::string& name);
/// Returns an experiment's tables and trials (cli/board/experiment_api.h). Throws server::HttpError for an unknown
/// one.
nlohmann::json show_experiment(const std::filesystem::path& root, const std::string& name);
/// Returns a part of a run's trace.json (cli/board/trace.h), with "damaged" if it cannot be read. Throws the errors of
/// show_run, and server::HttpError without such a file.
nlohmann::json show_trace(const std::filesystem::path& root, const std::string& name, const TraceWindow& window);
/// Returns a function that returns one of kRunFiles piece by piece, and then an empty text. Throws the errors of
/// show_run, server::HttpError without such a file, and FileError, also above 4 GiB.
std::function<std::string()> run_file(const std::filesystem::path& root, const std::string& name,
                                      const std::string& file);
inline constexpr const char* kRunFiles[] = {"config.yaml",    "metrics.jsonl", "rankings.csv",
                                            "comparison.txt", "trace.json",    "profile.txt"};
/// Returns how well the run ranked the candidates of each group, from its rankings.csv: {"groups": [{"set", "group",
/// "candidates", "failed", "kendall_tau", "top1_slowdown", "top5_slowdown", "points": [[rank, score, predicted,
/// measured], …]}], "total", "cut"}, with "damaged" if the file cannot be read. Metrics cover the successful
/// candidates; undefined ones are null. `points` has at most 300 candidates of a group, evenly chosen by rank, for the
/// first 400 groups. `cut`: the file was only read in part. Throws the errors of show_run.
nlohmann::json show_rankings(const std::filesystem::path& root, const std::string& name);

}  // namespace foretime::cli
