#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "history/history.h"

/// The board's view of run directories below the folder `root`. Names are paths below `root`, without symbolic links
/// (base/foreign_file.h). An unreadable part of a run never hides the rest: answers have a list "damaged" of messages.
namespace foretime::cli {

/// Returns a history as JSON (history::to_json), thinned to at most 2,000 points for a series and 200,000 for all.
nlohmann::json curves_of(const history::History& history);

/// Returns {"runs", "total", "experiments"}: run directories, including baselines of experiments; their number before
/// the limit; folders of experiments. Both lists have the newest first, at most 1,000 each, as {"name", "modified_ms",
/// "parameters": text of the values that a sweep chose}. Looks 7 folders deep, and not into run directories.
nlohmann::json list_runs(const std::filesystem::path& root);
/// Returns {"name", "history", "settings", "comparison", "profile", "files", "damaged"}: the history of all attempts,
/// the texts of config.yaml, comparison.txt and profile.txt of the newest attempt ("" if missing), and the names of the
/// existing files among kRunFiles. Throws server::HttpError for an unknown run.
nlohmann::json show_run(const std::filesystem::path& root, const std::string& name);
/// Returns the tables and trials of an experiment (experiment_of). Throws server::HttpError for an unknown experiment.
nlohmann::json show_experiment(const std::filesystem::path& root, const std::string& name);
/// Returns a function that returns the next piece of `file`, one of kRunFiles, at each call, and "" at the end. Throws
/// server::HttpError for an unknown run or a missing file, and the errors of open_foreign, also above 4 GiB.
std::function<std::string()> run_file(const std::filesystem::path& root, const std::string& name,
                                      const std::string& file);
inline constexpr const char* kRunFiles[] = {"config.yaml",    "metrics.jsonl", "rankings.csv",
                                            "comparison.txt", "trace.json",    "profile.txt"};
/// Returns how well the run ranked the candidates of each group, from its rankings.csv: {"name", "groups": [{"set",
/// "group", "candidates", "failed", "kendall_tau", "top1_slowdown", "top5_slowdown", "points": [[rank, score,
/// predicted, measured], …]}], "total", "cut"}, with "damaged" if the file cannot be read. Metrics cover the successful
/// candidates; undefined ones are null. "groups" are the first 400 of "total", "points" at most 300 candidates, evenly
/// chosen by rank. "cut": only the first 64 MiB were read. Throws server::HttpError for an unknown run.
nlohmann::json show_rankings(const std::filesystem::path& root, const std::string& name);

}  // namespace foretime::cli
