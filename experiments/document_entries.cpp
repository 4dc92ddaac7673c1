#include "experiments/document_entries.h"

#include <algorithm>

#include <fmt/format.h>

#include "configs/load.h"
#include "experiments/error.h"
#include "jobs/error.h"

namespace foretime::experiments {
namespace {

using configs::YamlEntry;

constexpr size_t kEntryLabel = 60, kPath = 4096, kMostEntries = 64;
const std::vector<std::string> kKeys = {"label", "kind", "settings", "set",    "features", "records",
                                        "dags",  "rows", "target",   "preset", "rounds"};
constexpr EntryKind kKinds[] = {EntryKind::model, EntryKind::mean, EntryKind::random, EntryKind::ceiling,
                                EntryKind::xgboost};
/// Settings that belong to the experiment itself.
const std::vector<std::string> kOwn = {"data.train_fraction", "trainer.seed", "trainer.baselines",
                                       "data.allowed_roots"};

EntryKind kind_in(const YamlEntry& item) {
  std::vector<std::string> names;
  for (const auto kind : kKinds) names.push_back(to_string(kind));
  const auto name = configs::choice_in(item, names);
  return kKinds[std::find(names.begin(), names.end(), name) - names.begin()];
}

BoostedRows rows_in(const YamlEntry& item) {
  const auto name = configs::choice_in(item, {"loops", "statements", "layout_codes"});
  if (name == "loops") return BoostedRows::loops;
  return name == "statements" ? BoostedRows::statements : BoostedRows::layout_codes;
}

void read_xgboost(const YamlEntry& item, XgboostSettings& xgboost) {
  if (item.key == "features") xgboost.features = texts_of(item);
  if (item.key == "records") xgboost.records = configs::text_in(item, kPath);
  if (item.key == "dags") xgboost.dags = configs::text_in(item, kPath);
  if (item.key == "rows") xgboost.rows = rows_in(item);
  if (item.key == "target") xgboost.target = configs::choice_in(item, {"time", "flop"});
  if (item.key == "preset")
    xgboost.preset = configs::choice_in(item, {"tvm", "squares", "pairs", "regression", "ranking"});
  if (item.key == "rounds") xgboost.rounds = configs::integer_in(item, 1, 100000);
}

void check_xgboost(const YamlEntry& where, const XgboostSettings& xgboost) {
  if (xgboost.rows == BoostedRows::layout_codes) {
    if (!xgboost.features.empty() || !xgboost.records.empty() || !xgboost.dags.empty())
      fail(where, "rows: layout_codes are made from the graphs: features, records and dags do not belong here");
    return;
  }
  if (xgboost.features.empty() == xgboost.records.empty()) fail(where, "expected either features or records");
  if (xgboost.records.empty() != xgboost.dags.empty()) fail(where, "records and dags belong together");
  if (!xgboost.records.empty() && xgboost.rows != BoostedRows::statements)
    fail(where, "records have features of statements: rows: statements");
}

ExperimentEntry read_entry(const YamlEntry& map, const std::string& origin, const std::filesystem::path& folder,
                           const std::vector<jobs::SettingOverride>& overrides) {
  ExperimentEntry entry;
  bool has_boosted = false;
  for (const YamlEntry& item : items_of(map, origin, "", kKeys)) {
    if (item.key == "label") {
      entry.label = configs::text_in(item, kEntryLabel);
    } else if (item.key == "kind") {
      entry.kind = kind_in(item);
    } else if (item.key == "settings") {
      entry.own = configs::load_settings(folder / configs::text_in(item, kPath));
      apply_all(*entry.own, overrides);
      entry.own->run = {};
    } else if (item.key == "set") {
      entry.set = jobs::flatten_overrides(item, origin);
      check_own(entry.set);
    } else {
      has_boosted = true;
      read_xgboost(item, entry.xgboost);
    }
  }
  if (entry.label.empty()) fail(map, "found an entry without label");
  const auto where = YamlEntry{"entries: " + entry.label, map.node, map.place};
  if (has_boosted != (entry.kind == EntryKind::xgboost))
    fail(where,
         "features, records, dags, rows, target, preset and rounds belong to kind xgboost, which needs features");
  if (entry.kind == EntryKind::xgboost) check_xgboost(where, entry.xgboost);
  if (entry.kind != EntryKind::model && (!entry.set.empty() || entry.own))
    fail(where, "set and settings belong to kind model");
  return entry;
}

}  // namespace

std::vector<YamlEntry> list_of(const YamlEntry& entry) {
  if (!entry.node.IsSequence()) fail(entry, "found a single value or a map, expected a list");
  std::vector<YamlEntry> items;
  for (const YAML::Node& node : entry.node) items.push_back({entry.key, node, entry.place});
  return items;
}

std::vector<std::string> texts_of(const YamlEntry& entry) {
  if (entry.node.IsScalar()) return {configs::text_in(entry, kPath)};
  std::vector<std::string> texts;
  for (const YamlEntry& item : list_of(entry)) texts.push_back(configs::text_in(item, kPath));
  return texts;
}

void check_own(const std::vector<jobs::SettingOverride>& overrides) {
  for (const auto& item : overrides) {
    if (std::find(kOwn.begin(), kOwn.end(), item.key) != kOwn.end() || item.key.starts_with("run."))
      configs::fail(
          {item.key, {}, item.entry.place},
          "belongs to the experiment: fractions and seeds say what is trained, entries beside what, --out where");
  }
}

void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides) {
  for (const auto& item : overrides) {
    try {
      configs::apply_override(settings, item.key, item.value);
    } catch (const configs::SettingsError& error) {
      throw ExperimentError(fmt::format("{}: {}", item.entry.place, error.what()));
    }
  }
}

std::vector<ExperimentEntry> read_entries(const YamlEntry& list, const std::string& origin,
                                          const std::filesystem::path& folder,
                                          const std::vector<jobs::SettingOverride>& overrides) {
  std::vector<ExperimentEntry> entries;
  for (const YamlEntry& item : list_of(list)) {
    auto entry = read_entry(item, origin, folder, overrides);
    const auto where = YamlEntry{"entries: " + entry.label, item.node, item.place};
    for (const auto& other : entries) {
      if (other.slug() == entry.slug())
        fail(where, fmt::format("found a second entry with the file name {}", entry.slug()));
    }
    if (entries.size() == kMostEntries) fail(where, fmt::format("found more than {} entries", kMostEntries));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace foretime::experiments
