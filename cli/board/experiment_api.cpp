#include "cli/board/experiment_api.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/files.h"
#include "base/text.h"

namespace foretime::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr uintmax_t kMostFigure = 2 << 20, kMostFigures = 12 << 20, kMostSummary = 1 << 20;
constexpr size_t kMostMain = 24;

std::string small_text(const fs::path& file, uintmax_t most) {
  std::error_code failure;
  const auto size = fs::file_size(file, failure);
  return failure || size > most ? "" : files().read(file);
}

/// The folders of trials that took all training data, or of all where none did: ENTRY/fraction-F/seed-S.
std::vector<fs::path> main_trials(const fs::path& folder) {
  std::vector<fs::path> all, whole;
  std::error_code failure;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, failure), end;
       !failure && it != end; it.increment(failure)) {
    if (!it->is_directory(failure)) continue;
    if (it.depth() >= 6 || it->path().filename() == "checkpoints") it.disable_recursion_pending();
    if (!files().exists(it->path() / "trial.json")) continue;
    all.push_back(it->path());
    if (it->path().parent_path().filename() == "fraction-1") whole.push_back(it->path());
    it.disable_recursion_pending();
  }
  auto& found = whole.empty() ? all : whole;
  std::ranges::sort(found);
  found.resize(std::min(found.size(), kMostMain));
  return found;
}

/// results.csv, a line for each value, as a row for each trial.
void add_results(const CsvTable& table, Json& json) {
  std::map<std::string, size_t> columns;
  for (size_t i = 0; i < table.columns.size(); ++i) columns[table.columns[i]] = i;
  for (const char* needed : {"entry", "kind", "fraction", "seed", "metric", "unit", "value"}) {
    if (!columns.contains(needed)) return;
  }
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> places;
  for (const auto& row : table.rows) {
    const auto text = [&](const char* column) { return printable_utf8(row[columns[column]]); };
    const auto [place, is_new] =
        places.try_emplace({text("entry"), text("kind"), text("fraction"), text("seed")}, places.size());
    if (is_new)
      json["trials"].push_back({{"entry", text("entry")},
                                {"kind", text("kind")},
                                {"fraction", text("fraction")},
                                {"seed", text("seed")},
                                {"values", Json::object()}});
    const auto metric = text("metric"), value = text("value");
    if (!json["units"].contains(metric)) {
      json["units"][metric] = text("unit");
      json["columns"].push_back(metric);
    }
    double number = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (failure == std::errc() && end == value.data() + value.size())
      json["trials"][place->second]["values"][metric] = number;
  }
}

}  // namespace

bool is_experiment(const fs::path& folder) { return files().exists(folder / "summary.md"); }

Json experiment_of(const fs::path& root, const fs::path& folder) {
  Json json = {{"name", folder == root ? "." : folder.lexically_relative(root).string()},
               {"summary", small_text(folder / "summary.md", kMostSummary)},
               {"figures", Json::array()},
               {"columns", Json::array()},
               {"units", Json::object()},
               {"trials", Json::array()},
               {"main", Json::array()}};
  auto names = files().list(folder);
  std::ranges::sort(names);
  uintmax_t room = kMostFigures;
  for (const auto& file : names) {
    if (file.extension() != ".svg") continue;
    auto text = small_text(file, std::min(room, kMostFigure));
    room -= text.size();
    if (!text.empty()) json["figures"].push_back({{"name", file.stem().string()}, {"svg", std::move(text)}});
  }
  if (files().exists(folder / "results.csv")) add_results(read_csv(folder / "results.csv"), json);
  for (const auto& trial : main_trials(folder)) json["main"].push_back(trial.lexically_relative(root).string());
  return json;
}

}  // namespace foretime::cli
