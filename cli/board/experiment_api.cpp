#include "cli/board/experiment_api.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/files.h"
#include "base/foreign_file.h"
#include "base/numbers.h"
#include "base/text.h"
#include "cli/board/damage.h"

namespace foretime::cli {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr uint64_t kMostSummary = 1 << 20, kMostResults = 64 << 20;
constexpr size_t kMostMain = 24;

/// The folders of trials that took all training data, or of all where none did: ENTRY/fraction-F/seed-S below `folder`,
/// as paths below `root`.
std::vector<fs::path> main_trials(const fs::path& root, const fs::path& folder) {
  std::vector<fs::path> all, whole;
  std::error_code failure;
  for (fs::recursive_directory_iterator it(root / folder, fs::directory_options::skip_permission_denied, failure), end;
       !failure && it != end; it.increment(failure)) {
    std::error_code unknown;
    if (it->symlink_status(unknown).type() != fs::file_type::directory) continue;
    if (it.depth() >= 6 || it->path().filename() == "checkpoints") it.disable_recursion_pending();
    const auto trial = it->path().lexically_relative(root);
    if (!foreign_exists(root, trial / "trial.json")) continue;
    all.push_back(trial);
    if (trial.parent_path().filename() == "fraction-1") whole.push_back(trial);
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
  for (const char* needed : {"entry", "kind", "fraction", "seed", "metric", "unit", "value"})
    if (!columns.contains(needed)) return;
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
    if (const auto number = parse_number<double>(value)) json["trials"][place->second]["values"][metric] = *number;
  }
}

}  // namespace

bool is_experiment(const fs::path& root, const fs::path& folder) { return foreign_exists(root, folder / "summary.md"); }

Json experiment_of(const fs::path& root, const fs::path& folder) {
  Json json = {{"name", folder.string()}, {"summary", ""},           {"columns", Json::array()},
               {"units", Json::object()}, {"trials", Json::array()}, {"main", Json::array()},
               {"damaged", Json::array()}};
  read_marked(json, root,
              [&] { json["summary"] = read_foreign(root, folder / "summary.md", kMostSummary).value_or(""); });
  read_marked(json, root, [&] {
    const auto results = read_foreign(root, folder / "results.csv", kMostResults);
    if (results) add_results(parse_csv(*results, (root / folder / "results.csv").string()), json);
  });
  for (const auto& trial : main_trials(root, folder)) json["main"].push_back(trial.string());
  return json;
}

}  // namespace foretime::cli
