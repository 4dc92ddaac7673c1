#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/board/trace.h"
#include "history/history.h"

/// What the board shows of run directories, which it finds below one folder. Names are paths relative to it, of which
/// no part may be a symbolic link (base/foreign_file.h). What cannot be read of a run never hides the rest: answers
/// have a list "damaged" of messages.
namespace foretime::cli {

/// Returns a history as JSON (history::to_json), thinned to what a page can draw: at most 2,000 points of a series, and
/// 200,000 of all.
nlohmann::json curves_of(const history::History& history);

/// The run directories, baselines of experiments among them, and the folders of experiments, newest first, at most
/// 1,000:
/// {"runs": [{"name", "modified_ms"}], "total", "experiments": [{"name", "modified_ms"}]}.
nlohmann::json list_runs(const std::filesystem::path& root);
/// {"name", "history", "settings", "comparison", "profile", "files", "damaged"}: texts of config.yaml, comparison.txt
/// and profile.txt of its newest attempt, and which of kRunFiles there are. Throws server::HttpError where there is no
/// such run.
nlohmann::json show_run(const std::filesystem::path& root, const std::string& name);
/// An experiment's tables and figures (cli/board/experiment_api.h). Throws server::HttpError where there is none.
nlohmann::json show_experiment(const std::filesystem::path& root, const std::string& name);
/// A part of its trace.json (cli/board/trace.h), with "damaged" if it cannot be read. Throws like show_run, and where
/// there is no such file.
nlohmann::json show_trace(const std::filesystem::path& root, const std::string& name, const TraceWindow& window);
/// Returns what gives one of kRunFiles piece by piece, and then an empty text. Throws like show_run, and where it has
/// no such file, and FileError, also above 4 GiB.
std::function<std::string()> run_file(const std::filesystem::path& root, const std::string& name,
                                      const std::string& file);
inline constexpr const char* kRunFiles[] = {"config.yaml",    "metrics.jsonl", "rankings.csv",
                                            "comparison.txt", "trace.json",    "profile.txt"};
/// How well the run ranked the candidates of each group (cli/board/rankings.h), with "damaged" if the file
/// cannot be read. Throws like show_run.
nlohmann::json show_rankings(const std::filesystem::path& root, const std::string& name);

}  // namespace foretime::cli
