#include "cli/board/run_api.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/foreign_file.h"
#include "base/numbers.h"
#include "base/text.h"
#include "cli/board/damage.h"
#include "cli/board/experiment_api.h"
#include "history/run_history.h"
#include "metrics/metrics.h"
#include "server/http/http.h"

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

constexpr uint64_t kMostBytes = 64 << 20;
constexpr size_t kMostGroups = 400, kMostPoints = 300;

/// NaN for an empty field.
double score_in(const std::string& text) {
  return parse_number<double>(text).value_or(std::numeric_limits<double>::quiet_NaN());
}

struct Group {
  std::vector<double> scores, predicted, measured;
};

Json one_line(const std::pair<std::string, std::string>& name, const Group& group) {
  std::vector<double> scores, runtimes;
  int64_t failed = 0;
  for (size_t i = 0; i < group.scores.size(); ++i) {
    if (std::isinf(group.measured[i])) ++failed;
    if (!std::isfinite(group.scores[i]) || !std::isfinite(group.measured[i])) continue;
    scores.push_back(group.scores[i]);
    runtimes.push_back(group.measured[i]);
  }
  Json points = Json::array();
  const size_t stride = (group.scores.size() + kMostPoints - 1) / kMostPoints;
  for (size_t i = 0; i < group.scores.size(); i += std::max<size_t>(1, stride))
    points.push_back({i, group.scores[i], group.predicted[i], group.measured[i]});
  return {{"set", printable_utf8(name.first)},
          {"group", printable_utf8(name.second)},
          {"candidates", group.scores.size()},
          {"failed", failed},
          {"kendall_tau", metrics::kendall_tau(scores, runtimes)},
          {"top1_slowdown", metrics::top_k_slowdown(scores, runtimes, 1)},
          {"top5_slowdown", metrics::top_k_slowdown(scores, runtimes, 5)},
          {"points", std::move(points)}};
}

/// Returns the groups of the rankings.csv `name` as show_rankings does.
Json rankings_of(const fs::path& root, const fs::path& name) {
  Json json = {{"groups", Json::array()}, {"total", 0}, {"cut", false}};
  const auto file = open_foreign(root, name, UINT64_MAX);
  if (!file) return json;
  const bool cut = file->size() > kMostBytes;
  std::string text(std::min<uint64_t>(kMostBytes, file->size()), '\0');
  text.resize(file->read(text));
  std::map<std::string, size_t> columns;
  std::map<std::pair<std::string, std::string>, Group> groups;
  std::vector<std::pair<std::string, std::string>> order;
  size_t count = 0;
  for (size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\n', begin);
    if (end == std::string::npos && cut) break;  // not whole
    const auto fields = csv_line(std::string_view(text).substr(begin, end - begin), ',', (root / name).string());
    begin = end == std::string::npos ? text.size() : end + 1;
    if (columns.empty()) {
      for (size_t i = 0; i < fields.size(); ++i) columns[fields[i]] = i;
      for (const char* needed : {"set", "group", "score", "predicted_runtime", "runtime"})
        if (!columns.contains(needed))
          throw history::HistoryError(
              "{}: found no column {}, expected set, group, score, "
              "predicted_runtime and runtime (written by another program?)",
              (root / name).string(), needed);
      count = fields.size();
      continue;
    }
    if (fields.size() != count) continue;
    const std::pair group(fields[columns["set"]], fields[columns["group"]]);
    auto [place, is_new] = groups.try_emplace(group);
    if (is_new) order.push_back(group);
    place->second.scores.push_back(score_in(fields[columns["score"]]));
    place->second.predicted.push_back(score_in(fields[columns["predicted_runtime"]]));
    place->second.measured.push_back(score_in(fields[columns["runtime"]]));
  }
  for (size_t i = 0; i < std::min(kMostGroups, order.size()); ++i)
    json["groups"].push_back(one_line(order[i], groups.at(order[i])));
  json["total"] = order.size();
  json["cut"] = cut;
  return json;
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
    throw HttpError{404, "not_found", "'" + printable_utf8(name.substr(0, 200)) + "': no such run or experiment"};
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
