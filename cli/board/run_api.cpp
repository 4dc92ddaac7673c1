#include "cli/board/run_api.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/text.h"
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
constexpr int kDepth = 7;  // of run directories below the root: experiments have trials in folders of folders
constexpr uintmax_t kMostText = 1 << 20, kMostFile = 512 << 20;

struct Found {
  std::string name;
  fs::file_time_type modified;
};

/// "model.hidden 64, model.layers 3": what a sweep chose for a trial.
std::string parameters_of(const fs::path& folder) {
  const auto file = history::file_of_run(folder, "parameters.json");
  if (file.empty()) return "";
  const auto json = Json::parse(files().read(file), nullptr, false);
  if (!json.is_object()) return "";
  std::string text;
  for (const auto& [name, value] : json.items())
    text += (text.empty() ? "" : ", ") + name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  return printable_utf8(text.substr(0, 300));
}

/// A run's folder, or that of a baseline, which has learned in no steps and leaves rankings alone.
bool is_shown(const fs::path& folder) { return history::is_run(folder) || files().exists(folder / "rankings.csv"); }

void find_runs(const fs::path& folder, const fs::path& root, int depth, std::vector<Found>& found,
               std::vector<Found>& experiments) {
  std::error_code failure;
  if (is_shown(folder)) {
    auto newest = fs::last_write_time(folder, failure);
    if (const auto time = fs::last_write_time(folder / "metrics.jsonl", failure); !failure)
      newest = std::max(newest, time);
    found.push_back({folder == root ? "." : folder.lexically_relative(root).string(), newest});
    return;
  }
  if (is_experiment(folder))
    experiments.push_back({folder == root ? "." : folder.lexically_relative(root).string(),
                           fs::last_write_time(folder / "summary.md", failure)});
  if (depth == 0) return;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, failure)) {
    if (entry.is_directory(failure) && !entry.is_symlink(failure) && !entry.path().filename().string().starts_with("."))
      find_runs(entry.path(), root, depth - 1, found, experiments);
  }
}

/// The text of a file of a run; empty where there is none, or much.
std::string text_of(const fs::path& folder, const std::string& name) {
  const auto file = history::file_of_run(folder, name);
  std::error_code failure;
  const auto size = fs::file_size(file, failure);
  return failure || size > kMostText ? "" : files().read(file);
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
  find_runs(root, root, kDepth, found, experiments);
  const auto newest = [&root](std::vector<Found>& all) {
    std::ranges::stable_sort(all, std::greater(), &Found::modified);
    Json json = Json::array();
    for (size_t i = 0; i < std::min(kMostRuns, all.size()); ++i)
      json.push_back({{"name", all[i].name},
                      {"modified_ms", milliseconds(all[i].modified)},
                      {"parameters", parameters_of(root / all[i].name)}});
    return json;
  };
  return {{"runs", newest(found)}, {"total", found.size()}, {"experiments", newest(experiments)}};
}

/// The folder of a run, symbolic links resolved.
static fs::path folder_of(const fs::path& root, const std::string& name, bool (*is_one)(const fs::path&) = is_shown) {
  std::error_code failure;
  const auto top = fs::canonical(root, failure);
  const auto folder = fs::canonical(root / name, failure);
  const auto inside = folder.lexically_relative(top);
  if (failure || inside.empty() || *inside.begin() == ".." || !is_one(folder))
    throw HttpError{404, "not_found", "'" + printable_utf8(name.substr(0, 200)) + "': there is no run of this name"};
  return folder;
}

Json show_run(const fs::path& root, const std::string& name) {
  const auto folder = folder_of(root, name);
  Json found = Json::array();
  for (const std::string file : kRunFiles) {
    if (!history::file_of_run(folder, file).empty()) found.push_back(file);
  }
  return {{"name", name},
          {"history", history::is_run(folder) ? curves_of(history::read_run(folder)) : Json::object()},
          {"settings", text_of(folder, "config.yaml")},
          {"comparison", text_of(folder, "comparison.txt")},
          {"profile", text_of(folder, "profile.txt")},
          {"files", std::move(found)}};
}

Json show_experiment(const fs::path& root, const std::string& name) {
  const auto folder = folder_of(root, name, is_experiment);
  return experiment_of(fs::canonical(root), folder);
}

/// One of kRunFiles of a run.
static fs::path path_of(const fs::path& root, const std::string& name, const std::string& file) {
  const auto folder = folder_of(root, name);
  const auto path =
      std::ranges::find(kRunFiles, file) == std::end(kRunFiles) ? fs::path() : history::file_of_run(folder, file);
  // Whoever may write a run directory is no way to the rest of the disk.
  if (path.empty() || fs::is_symlink(path))
    throw HttpError{404, "not_found", "run '" + printable_utf8(name.substr(0, 200)) + "': has no such file"};
  return path;
}

Json show_trace(const fs::path& root, const std::string& name, const TraceWindow& window) {
  return trace_of(path_of(root, name, "trace.json"), window);
}

std::string run_file(const fs::path& root, const std::string& name, const std::string& file) {
  const auto path = path_of(root, name, file);
  if (fs::file_size(path) > kMostFile)
    throw HttpError{400, "too_large", path.string() + ": found more than 512 MiB, expected less: copy it"};
  return files().read(path);
}

Json show_rankings(const fs::path& root, const std::string& name) {
  const auto folder = folder_of(root, name), file = history::file_of_run(folder, "rankings.csv");
  auto json = rankings_of(file.empty() ? folder : file.parent_path());
  json["name"] = name;
  return json;
}

}  // namespace foretime::cli
