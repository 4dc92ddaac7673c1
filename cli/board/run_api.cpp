#include "cli/board/run_api.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/foreign_file.h"
#include "base/text.h"
#include "cli/board/damage.h"
#include "cli/board/experiment_api.h"
#include "cli/board/rankings.h"
#include "history/run_history.h"
#include "server/http.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using server::HttpError;

constexpr size_t kMostRuns = 1000;
constexpr int kDepth = 7;  // levels of run directories below the root: experiments have trials in nested folders
constexpr uintmax_t kMostText = 1 << 20, kMostDrawn = 512 << 20;

struct Found {
  std::string name;
  fs::file_time_type modified;
};

/// "model.hidden 64, model.layers 3": what a sweep chose for a trial.
std::string parameters_of(const fs::path& root, const fs::path& run) {
  const auto file = history::file_of_run(root, run, "parameters.json");
  const auto bytes = file.empty() ? std::nullopt : read_foreign(root, file, kMostText);
  const auto json = Json::parse(bytes.value_or(""), nullptr, false);
  if (!json.is_object()) return "";
  std::string text;
  for (const auto& [name, value] : json.items())
    text += (text.empty() ? "" : ", ") + name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  return printable_utf8(text.substr(0, 300));
}

/// A run's folder, or that of a baseline, which has learned in no steps and leaves rankings alone.
bool is_shown(const fs::path& root, const fs::path& run) {
  return history::is_run(root, run) || foreign_exists(root, run / "rankings.csv");
}

/// `folder` is a path below `root`, "." for `root` itself.
void find_runs(const fs::path& root, const fs::path& folder, int depth, std::vector<Found>& found,
               std::vector<Found>& experiments) {
  std::error_code failure;
  if (is_shown(root, folder)) {
    const auto newest = fs::last_write_time(root / folder, failure);
    const auto metrics = foreign_write_time(root, folder / "metrics.jsonl");
    found.push_back({folder.string(), metrics ? std::max(newest, *metrics) : newest});
    return;
  }
  if (is_experiment(root, folder))
    experiments.push_back(
        {folder.string(), foreign_write_time(root, folder / "summary.md").value_or(fs::file_time_type())});
  if (depth == 0) return;
  for (fs::directory_iterator at(root / folder, fs::directory_options::skip_permission_denied, failure), end;
       !failure && at != end; at.increment(failure)) {
    std::error_code unknown;
    const auto name = at->path().filename().string();
    if (at->symlink_status(unknown).type() == fs::file_type::directory && !name.starts_with("."))
      find_runs(root, folder == "." ? fs::path(name) : folder / name, depth - 1, found, experiments);
  }
}

/// The text of a file of a run; empty where there is none.
std::string text_of(const fs::path& root, const fs::path& run, const std::string& name) {
  const auto file = history::file_of_run(root, run, name);
  return file.empty() ? "" : read_foreign(root, file, kMostText).value_or("");
}

int64_t milliseconds(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(system).count();
}

}  // namespace

Json curves_of(const history::History& history) {
  constexpr size_t kMostPoints = 2000, kMostOfAll = 200'000;
  const auto& all = history.series();
  return history::to_json(history, std::min(kMostPoints, kMostOfAll / std::max<size_t>(1, all.size())));
}

Json list_runs(const fs::path& root) {
  std::vector<Found> found, experiments;
  find_runs(root, ".", kDepth, found, experiments);
  const auto newest = [&root](std::vector<Found>& all) {
    std::ranges::stable_sort(all, std::greater(), &Found::modified);
    Json json = Json::array();
    for (size_t i = 0; i < std::min(kMostRuns, all.size()); ++i) {
      Json run = {{"name", all[i].name}, {"modified_ms", milliseconds(all[i].modified)}, {"parameters", ""}};
      read_marked(run, root, [&] { run["parameters"] = parameters_of(root, all[i].name); });
      json.push_back(std::move(run));
    }
    return json;
  };
  return {{"runs", newest(found)}, {"total", found.size()}, {"experiments", newest(experiments)}};
}

/// Throws HttpError unless `is_one` says that there is one of this name below the root.
static void check_name(const fs::path& root, const std::string& name,
                       bool (*is_one)(const fs::path& root, const fs::path& folder) = is_shown) {
  if (!is_one(root, name))
    throw HttpError{404, "not_found", "'" + printable_utf8(name.substr(0, 200)) + "': there is no run of this name"};
}

Json show_run(const fs::path& root, const std::string& name) {
  check_name(root, name);
  Json json = {{"name", name}, {"history", Json::object()}, {"files", Json::array()}, {"damaged", Json::array()}};
  for (const std::string file : kRunFiles)
    if (!history::file_of_run(root, name, file).empty()) json["files"].push_back(file);
  if (history::is_run(root, name))
    read_marked(json, root, [&] { json["history"] = curves_of(history::read_run(root, name, kMostDrawn)); });
  for (const auto& [field, file] : {std::pair("settings", "config.yaml"), std::pair("comparison", "comparison.txt"),
                                    std::pair("profile", "profile.txt")}) {
    json[field] = "";
    read_marked(json, root, [&] { json[field] = text_of(root, name, file); });
  }
  return json;
}

Json show_experiment(const fs::path& root, const std::string& name) {
  check_name(root, name, is_experiment);
  return experiment_of(root, name);
}

/// The name below `root` of one of kRunFiles of a run.
static fs::path path_of(const fs::path& root, const std::string& name, const std::string& file) {
  check_name(root, name);
  const auto path =
      std::ranges::find(kRunFiles, file) == std::end(kRunFiles) ? fs::path() : history::file_of_run(root, name, file);
  if (path.empty())
    throw HttpError{404, "not_found", "run '" + printable_utf8(name.substr(0, 200)) + "': the run has no such file"};
  return path;
}

Json show_trace(const fs::path& root, const std::string& name, const TraceWindow& window) {
  const auto file = path_of(root, name, "trace.json");
  Json json = {{"duration", 0},          {"from", 0}, {"to", 0}, {"rows", Json::array()}, {"names", Json::array()},
               {"spans", Json::array()}, {"short", 0}};
  read_marked(json, root, [&] { json = trace_of(root, file, window); });
  return json;
}

std::function<std::string()> run_file(const fs::path& root, const std::string& name, const std::string& file) {
  constexpr size_t kPiece = 1 << 16;
  const std::shared_ptr<InputFile> opened = open_foreign(root, path_of(root, name, file), history::kMostMetrics);
  return [opened] {
    std::string piece(opened ? kPiece : 0, '\0');  // somebody may have removed it meanwhile
    piece.resize(opened ? opened->read(piece) : 0);
    return piece;
  };
}

Json show_rankings(const fs::path& root, const std::string& name) {
  check_name(root, name);
  Json json = {{"name", name}, {"groups", Json::array()}, {"total", 0}, {"cut", false}};
  const auto file = history::file_of_run(root, name, "rankings.csv");
  if (!file.empty()) read_marked(json, root, [&] { json.update(rankings_of(root, file)); });
  return json;
}

}  // namespace foretime::cli
