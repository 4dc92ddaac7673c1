#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

/// What the board shows of run directories, which it finds below one folder. Names are paths relative to it; those that
/// lead out of it are refused, symbolic links resolved.
namespace foretime::cli {

/// The run directories, newest first, at most 1,000: {"runs": [{"name", "modified_ms"}]}.
nlohmann::json list_runs(const std::filesystem::path& root);
/// {"name", "history", "settings", "comparison"}. Throws server::HttpError where there is no such run.
nlohmann::json show_run(const std::filesystem::path& root, const std::string& name);
/// How well the run ranked the candidates of each group (cli/board/rankings.h). Throws like show_run.
nlohmann::json show_rankings(const std::filesystem::path& root, const std::string& name);

}  // namespace foretime::cli
