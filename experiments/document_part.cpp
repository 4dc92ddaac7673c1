#include "experiments/document_part.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/load.h"
#include "data/graphs/group.h"
#include "experiments/metrics.h"
#include "jobs/error.h"

namespace foretime::experiments {
namespace {

using configs::YamlEntry;

constexpr size_t kPartLabel = 60, kPartText = 2000, kPath = 4096, kMostEntries = 64;
const std::vector<std::string> kKeys = {"label", "kind", "settings", "set",    "features", "records",
                                        "dags",  "rows", "target",   "preset", "rounds"};
/// Settings that belong to the experiment itself.
const std::vector<std::string> kOwn = {"data.train_fraction", "trainer.seed", "trainer.baselines",
                                       "data.allowed_roots"};

template <configs::Choice T>
T choice_in(const YamlEntry& item) {
  return *configs::choice_named<T>(configs::choice_in(item, configs::words_of<T>()));
}

/// The items of a list, each with the list's key and place.
std::vector<YamlEntry> list_of(const YamlEntry& entry) {
  if (!entry.node.IsSequence()) fail(entry, "found a single value or a map, expected a list");
  std::vector<YamlEntry> items;
  for (const YAML::Node& node : entry.node) items.push_back({entry.key, node, entry.place});
  return items;
}

/// Returns a list of texts; a single text is a list of one.
std::vector<std::string> texts_of(const YamlEntry& entry) {
  if (entry.node.IsScalar()) return {configs::text_in(entry, kPath)};
  std::vector<std::string> texts;
  for (const YamlEntry& item : list_of(entry)) texts.push_back(configs::text_in(item, kPath));
  return texts;
}

/// Refuses settings that belong to the experiment: its fractions and seeds, the folders of its runs.
void check_own(const std::vector<jobs::SettingOverride>& overrides) {
  for (const auto& item : overrides)
    if (std::find(kOwn.begin(), kOwn.end(), item.key) != kOwn.end() || item.key.starts_with("run."))
      configs::fail({item.key, {}, item.entry.place},
                    "is set by the experiment: use fractions, seeds, entries and --out");
}

void read_xgboost(const YamlEntry& item, XgboostSettings& xgboost) {
  if (item.key == "features") xgboost.features = texts_of(item);
  if (item.key == "records") xgboost.records = configs::text_in(item, kPath);
  if (item.key == "dags") xgboost.dags = configs::text_in(item, kPath);
  if (item.key == "rows") xgboost.rows = choice_in<BoostedRows>(item);
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
      entry.label = configs::text_in(item, kPartLabel);
    } else if (item.key == "kind") {
      entry.kind = choice_in<EntryKind>(item);
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

constexpr size_t kMostFractions = 100, kMostColumns = 40;
constexpr int64_t kMostSeeds = 1000, kMostFolds = 1000;
const std::vector<std::string> kSets = {"test", "valid", "holdout"};

std::vector<ExperimentEntry> read_entries(const YamlEntry& list, const std::string& origin,
                                          const std::filesystem::path& folder,
                                          const std::vector<jobs::SettingOverride>& overrides) {
  std::vector<ExperimentEntry> entries;
  for (const YamlEntry& item : list_of(list)) {
    auto entry = read_entry(item, origin, folder, overrides);
    const auto where = YamlEntry{"entries: " + entry.label, item.node, item.place};
    for (const auto& other : entries)
      if (other.slug() == entry.slug())
        fail(where, fmt::format("found a second entry with the file name {}", entry.slug()));
    if (entries.size() == kMostEntries) fail(where, fmt::format("found more than {} entries", kMostEntries));
    entries.push_back(std::move(entry));
  }
  return entries;
}

class PartReader {
 public:
  PartReader(const PartKeys& keys, Experiment named, const std::filesystem::path& folder,
             const ExperimentChoice& choice)
      : keys_(keys.keys), layers_(keys), folder_(folder), choice_(choice), experiment_(std::move(named)) {}

  Experiment read() {
    for (const char* needed : {"entries", "metrics"}) {
      const bool columns = std::string(needed) == "metrics" && has("columns");
      if (!has(needed) && !columns)
        configs::fail({needed, {}, place()}, "is missing; an experiment has entries and metrics");
    }
    read_folds();
    read_settings();
    read_texts();
    read_sets();
    read_metrics();
    read_fractions();
    read_seeds();
    experiment_.entries = read_entries(keys_.at("entries"), experiment_.origin, folder_, overrides_);
    for (const auto& entry : experiment_.entries)
      if (entry.kind == EntryKind::xgboost && entry.xgboost.rows == BoostedRows::layout_codes &&
          experiment_.base.data.format != configs::DataFormat::layout)
        configs::fail({"entries: " + entry.label, {}, place()}, "rows: layout_codes need data.format: layout");
    if (has("references"))
      for (const YamlEntry& item : list_of(keys_.at("references"))) read_reference(item);
    if (has("classes"))
      for (const YamlEntry& item : items_of(keys_.at("classes"), experiment_.origin, "", {}))
        experiment_.classes.push_back({item.key, texts_of(item)});
    return std::move(experiment_);
  }

 private:
  bool has(const std::string& key) const { return keys_.contains(key); }
  std::string text(const std::string& key, const std::string& fallback, size_t limit) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? fallback : configs::text_in(found->second, limit);
  }
  std::string place() const {
    return experiment_.part.empty() ? experiment_.origin
                                    : fmt::format("{}: parts.{}", experiment_.origin, experiment_.part);
  }

  void read_folds() {
    if (!has("folds")) return;
    const auto& entry = keys_.at("folds");
    for (const YamlEntry& item : items_of(entry, experiment_.origin, "folds.", {"count", "groups"})) {
      if (item.key == "folds.count") experiment_.folds.count = configs::integer_in(item, 2, kMostFolds);
      if (item.key == "folds.groups") experiment_.folds.groups = texts_of(item);
    }
    if (experiment_.folds.count == 0 || experiment_.folds.groups.empty())
      fail(entry, "expected {count: 5, groups: [patterns of files]}");
  }

  void read_settings() {
    if (has("settings")) experiment_.base = configs::load_settings(folder_ / text("settings", "", kPath));
    for (const auto& entry : layers_.overrides) {
      const auto list = jobs::flatten_overrides(entry, experiment_.origin);
      check_own(list);
      overrides_.insert(overrides_.end(), list.begin(), list.end());
    }
    apply_all(experiment_.base, overrides_);
    experiment_.last = layers_.last;
    const auto add = [&](const std::string& key, const std::string& value, const std::string& where) {
      experiment_.last.push_back({key, value, {key, YAML::Node(value), where}});
    };
    if (!choice_.data_root.empty()) add("data.root", choice_.data_root, "--data " + choice_.data_root);
    for (const std::string& item : choice_.overrides) {
      const size_t equals = item.find('=');
      if (equals == std::string::npos || equals == 0)
        throw ExperimentError("override {}: found no key=value, expected an override such as trainer.steps=100", item);
      add(item.substr(0, equals), item.substr(equals + 1), "override " + item);
    }
    check_own(experiment_.last);
    apply_all(experiment_.base, experiment_.last);
    experiment_.base.trainer.baselines.clear();
    experiment_.base.run = {};
    if (experiment_.base.data.train.empty() && experiment_.folds.count == 0)
      throw ExperimentError(
          "{}: data.train: found no files to train on; "
          "name the settings (settings: my.yaml) or set data.train under overrides",
          place());
  }

  void read_texts() {
    const auto fallback = experiment_.part.empty() ? experiment_.name : experiment_.part;
    experiment_.title = text("title", fallback, kPartText);
    experiment_.description = text("description", "", kPartText);
    experiment_.remeasured = text("remeasured", "", kPath);
    if (has("requires")) experiment_.requirements = texts_of(keys_.at("requires"));
    if (!has("submission")) return;
    const auto& entry = keys_.at("submission");
    experiment_.submission = configs::text_in(entry, kPartLabel);
    if (experiment_.submission != "by_name" && data::collection_named(experiment_.submission) == data::Collection::none)
      fail(entry, fmt::format("found {}, expected a collection such as layout:xla:default, or by_name",
                              experiment_.submission));
    if (experiment_.folds.count > 0) fail(entry, "folds test labelled groups alone: there is nothing to submit");
  }

  void read_sets() {
    experiment_.sets = {"test"};
    if (!has("set")) return;
    const auto& entry = keys_.at("set");
    if (entry.node.IsScalar()) {
      experiment_.sets = {configs::choice_in(entry, kSets)};
    } else {
      experiment_.sets.clear();
      for (const YamlEntry& item : list_of(entry)) experiment_.sets.push_back(configs::choice_in(item, kSets));
    }
    const std::set<std::string> different(experiment_.sets.begin(), experiment_.sets.end());
    if (different.empty() || different.size() != experiment_.sets.size()) fail(entry, "found no set, or one twice");
    if (experiment_.folds.count > 0 && experiment_.sets != std::vector<std::string>{"test"})
      fail(entry, "folds measure the groups that they leave out: set: test");
  }

  void read_metrics() {
    if (has("columns")) {
      for (const YamlEntry& item : list_of(keys_.at("columns"))) read_column(item);
      experiment_.has_columns = true;
      if (experiment_.columns.empty() || experiment_.columns.size() > kMostColumns)
        fail(keys_.at("columns"),
             fmt::format("found {} columns, expected 1 to {}", experiment_.columns.size(), kMostColumns));
    }
    auto& metrics = experiment_.metrics;
    if (has("metrics")) {
      for (const YamlEntry& item : list_of(keys_.at("metrics")))
        metrics.push_back(configs::choice_in(item, metric_names()));
      if (metrics.empty()) fail(keys_.at("metrics"), "found an empty list, expected a metric");
    } else {
      for (const auto& column : experiment_.columns)
        if (std::find(metrics.begin(), metrics.end(), column.metric) == metrics.end()) metrics.push_back(column.metric);
    }
    if (!experiment_.has_columns)
      for (const auto& metric : metrics) experiment_.columns.push_back({{}, metric, {}, {}});
  }

  void read_column(const YamlEntry& map) {
    Column column;
    for (const YamlEntry& item : items_of(map, experiment_.origin, "", {"metric", "set", "groups", "title"})) {
      if (item.key == "metric") column.metric = configs::choice_in(item, metric_names());
      if (item.key == "set") column.set = configs::choice_in(item, experiment_.sets);
      if (item.key == "groups") column.groups = texts_of(item);
      if (item.key == "title") column.title = configs::text_in(item, kPartLabel);
    }
    if (column.metric.empty()) fail(map, "found a column without metric");
    experiment_.columns.push_back(std::move(column));
  }

  void read_fractions() {
    std::set<double> fractions(choice_.fractions.begin(), choice_.fractions.end());
    YamlEntry entry{"--fractions", {}, "command line"};
    if (fractions.empty() && has("fractions")) {
      entry = keys_.at("fractions");
      for (const YamlEntry& item : list_of(entry)) fractions.insert(configs::number_in(item));
    }
    if (fractions.empty()) fractions = {1.0};
    if (fractions.size() > kMostFractions || !(*fractions.begin() > 0) || *fractions.rbegin() > 1)
      fail(entry, fmt::format("found {}, expected 1 to {} numbers above 0, at most 1", fmt::join(fractions, ", "),
                              kMostFractions));
    experiment_.fractions.assign(fractions.begin(), fractions.end());
  }

  void read_seeds() {
    auto count = choice_.seeds;
    const auto given = keys_.find("seeds");
    if (count == 0 && given != keys_.end() && given->second.node.IsSequence()) {
      for (const YamlEntry& item : list_of(given->second)) experiment_.seeds.push_back(configs::seed_in(item));
      const std::set<uint64_t> different(experiment_.seeds.begin(), experiment_.seeds.end());
      if (different.empty() || different.size() != experiment_.seeds.size())
        fail(given->second, "found no seed, or one twice");
      return;
    }
    if (count == 0) count = given == keys_.end() ? 1 : configs::integer_in(given->second, 1, kMostSeeds);
    for (int64_t i = 0; i < count; ++i) experiment_.seeds.push_back(experiment_.base.trainer.seed + i);
  }

  void read_reference(const YamlEntry& map) {
    Reference reference;
    auto known = metric_names();
    for (const auto& column : experiment_.columns)
      if (!column.title.empty()) known.push_back(column.title);
    known.emplace_back("label");
    for (const YamlEntry& item : items_of(map, experiment_.origin, "", known)) {
      if (item.key == "label") reference.label = configs::text_in(item, kPartLabel);
      else reference.values[item.key] = configs::number_in(item);
    }
    if (reference.label.empty()) fail(map, "found a reference without label");
    experiment_.references.push_back(std::move(reference));
  }

  const std::map<std::string, YamlEntry>& keys_;
  const PartKeys& layers_;
  std::filesystem::path folder_;
  const ExperimentChoice& choice_;
  Experiment experiment_;
  std::vector<jobs::SettingOverride> overrides_;
};

}  // namespace

void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides) {
  for (const auto& item : overrides) {
    try {
      configs::apply_override(settings, item.key, item.value);
    } catch (const configs::SettingsError& error) {
      throw ExperimentError("{}: {}", item.entry.place, error.what());
    }
  }
}

const std::vector<std::string>& part_keys() {
  static const std::vector<std::string> keys = {
      "title",   "description", "settings", "overrides",  "fractions",  "seeds",   "set",      "metrics",
      "columns", "entries",     "folds",    "remeasured", "references", "classes", "requires", "submission"};
  return keys;
}

Experiment read_part(const PartKeys& keys, Experiment named, const std::filesystem::path& folder,
                     const ExperimentChoice& choice) {
  return PartReader(keys, std::move(named), folder, choice).read();
}

}  // namespace foretime::experiments
