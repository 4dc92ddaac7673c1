#include "cli/experiment/document.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/experiment/document_figures.h"
#include "cli/experiment/metrics.h"
#include "configs/load.h"
#include "jobs/error.h"
#include "jobs/sweep_yaml.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;
using jobs::Entry;
using jobs::fail;

constexpr const char* kFolder = "configs/experiments";
constexpr size_t kText = 2000, kLabel = 60, kPath = 4096;
constexpr size_t kMostEntries = 64, kMostFractions = 100;
constexpr int64_t kMostSeeds = 1000;
const std::vector<std::string> kKeys = {"name",      "title",      "description", "settings", "overrides",
                                        "fractions", "variants",   "seeds",       "set",      "metrics",
                                        "entries",   "remeasured", "references",  "classes",  "figures"};
/// What a variant may replace; its overrides come on top instead.
const std::vector<std::string> kVariantKeys = {"extends",    "title",      "description", "settings", "overrides",
                                               "fractions",  "seeds",      "set",         "metrics",  "entries",
                                               "remeasured", "references", "classes",     "figures"};
/// Settings that belong to the experiment itself.
const std::vector<std::string> kOwn = {"data.train_fraction", "trainer.seed", "trainer.baselines", "data.confine"};

void check_own(const std::vector<jobs::SettingOverride>& overrides) {
  for (const auto& item : overrides) {
    if (std::find(kOwn.begin(), kOwn.end(), item.key) != kOwn.end() || item.key.starts_with("run."))
      fail({item.key, {}, item.entry.place},
           "belongs to the experiment: fractions and seeds say what is trained, entries beside what, --out where");
  }
}

/// Applies settings in their order; each message has the place of the setting that it is about.
void apply_all(configs::Settings& settings, const std::vector<jobs::SettingOverride>& overrides) {
  for (const auto& item : overrides) {
    try {
      configs::apply_override(settings, item.key, item.value);
    } catch (const configs::SettingsError& error) {
      throw jobs::SweepError(fmt::format("{}: {}", item.entry.place, error.what()));
    }
  }
}

std::vector<Entry> list_of(const Entry& entry) {
  if (!entry.node.IsSequence()) fail(entry, "found a single value or a map, expected a list");
  std::vector<Entry> items;
  for (const YAML::Node& node : entry.node) items.push_back({entry.key, node, entry.place});
  return items;
}

std::vector<std::string> texts_of(const Entry& entry) {
  if (entry.node.IsScalar()) return {jobs::text_in(entry, kPath)};
  std::vector<std::string> texts;
  for (const Entry& item : list_of(entry)) texts.push_back(jobs::text_in(item, kPath));
  return texts;
}

std::string listed(const std::map<std::string, Entry>& known) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : known) names.push_back(name);
  return names.empty() ? "is none" : fmt::format("{} {}", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
}

class Reader {
 public:
  Reader(const std::string& origin, const fs::path& folder, const ExperimentChoice& choice)
      : origin_(origin), folder_(folder), choice_(choice) {
    experiment_.origin = origin;
    experiment_.name = fs::path(origin).stem().string();
  }

  Experiment read(const std::string& yaml) {
    const Entry root{"", jobs::parse_yaml(yaml, origin_), origin_};
    std::map<std::string, Entry> keys;
    for (const Entry& item : items_of(root, origin_, "", kKeys)) keys.emplace(item.key, item);
    choose_variant(keys);
    for (const char* needed : {"entries", "metrics"}) {
      if (!keys.contains(needed)) fail({needed, {}, origin_}, "is missing; an experiment has entries and metrics");
    }
    read_settings(keys);
    read_plan(keys);
    for (const Entry& item : list_of(keys.at("entries"))) read_entry(item);
    choose_entries(keys.at("entries"));
    if (keys.contains("references")) {
      for (const Entry& item : list_of(keys.at("references"))) read_reference(item);
    }
    if (keys.contains("classes")) {
      for (const Entry& item : items_of(keys.at("classes"), origin_, "", {}))
        experiment_.classes.push_back({item.key, texts_of(item)});
    }
    if (keys.contains("figures")) experiment_.figures = read_figures(keys.at("figures"), origin_, experiment_);
    return std::move(experiment_);
  }

 private:
  void choose_variant(std::map<std::string, Entry>& keys) {
    experiment_.variant = choice_.variant;
    std::map<std::string, Entry> known;
    if (const auto variants = keys.find("variants"); variants != keys.end()) {
      for (const Entry& item : items_of(variants->second, origin_, "variants.", {}))
        known.emplace(item.key.substr(std::string("variants.").size()), item);
    }
    std::vector<std::string> chain;  // the chosen one, what it extends, …
    std::vector<std::vector<Entry>> maps;
    for (std::string name = choice_.variant; !name.empty();) {
      const auto found = known.find(name);
      if (found == known.end())
        fail({"variants", {}, origin_}, fmt::format("found no {}, there {}", name, listed(known)));
      if (std::find(chain.begin(), chain.end(), name) != chain.end())
        fail(found->second, "extends itself, by itself or by others");
      chain.push_back(name);
      maps.push_back(items_of(found->second, origin_, "", kVariantKeys));
      name.clear();
      for (const Entry& item : maps.back()) {
        if (item.key == "extends") name = jobs::text_in(item, kLabel);
      }
    }
    for (auto map = maps.rbegin(); map != maps.rend(); ++map) {
      for (const Entry& item : *map) lay_over(item, keys);
    }
  }

  void lay_over(const Entry& item, std::map<std::string, Entry>& keys) {
    if (item.key == "overrides") {
      const auto more = jobs::flatten_overrides(item, origin_);
      experiment_.last.insert(experiment_.last.end(), more.begin(), more.end());
    } else if (item.key != "extends") {
      keys[item.key] = item;
    }
  }

  void read_settings(const std::map<std::string, Entry>& keys) {
    if (const auto file = keys.find("settings"); file != keys.end())
      experiment_.base = configs::load_settings(folder_ / jobs::text_in(file->second, kPath));
    if (const auto overrides = keys.find("overrides"); overrides != keys.end()) {
      const auto list = jobs::flatten_overrides(overrides->second, origin_);
      check_own(list);
      apply_all(experiment_.base, list);
    }
    for (const std::string& text : choice_.overrides) {
      const std::string place = "override " + text;
      const size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0)
        throw jobs::SweepError(place + ": found no key=value, expected an override such as trainer.steps=100");
      const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
      experiment_.last.push_back({key, value, {key, YAML::Node(value), place}});
    }
    check_own(experiment_.last);
    apply_all(experiment_.base, experiment_.last);
    experiment_.base.trainer.baselines.clear();
    experiment_.base.run = {};
    if (experiment_.base.data.train.empty())
      throw jobs::SweepError(
          fmt::format("{}: data.train: found no files to train on; name the settings (settings: my.yaml) "
                      "or set data.train under overrides",
                      origin_));
  }

  void read_plan(const std::map<std::string, Entry>& keys) {
    const auto text = [&](const char* key, std::string fallback, size_t limit) {
      const auto found = keys.find(key);
      return found == keys.end() ? fallback : jobs::text_in(found->second, limit);
    };
    experiment_.name = text("name", experiment_.name, kLabel);
    experiment_.title = text("title", experiment_.name, kText);
    experiment_.description = text("description", "", kText);
    experiment_.remeasured = text("remeasured", "", kPath);
    experiment_.set = "test";
    if (const auto set = keys.find("set"); set != keys.end())
      experiment_.set = jobs::choice_in(set->second, {"test", "valid", "holdout"});
    for (const Entry& item : list_of(keys.at("metrics")))
      experiment_.metrics.push_back(jobs::choice_in(item, metric_names()));
    if (experiment_.metrics.empty()) fail(keys.at("metrics"), "found an empty list, expected a metric");
    read_fractions(keys);
    read_seeds(keys);
  }

  void read_fractions(const std::map<std::string, Entry>& keys) {
    std::set<double> fractions(choice_.fractions.begin(), choice_.fractions.end());
    Entry entry{"--fractions", {}, "command line"};
    const auto given = keys.find("fractions");
    if (fractions.empty() && given != keys.end()) {
      entry = given->second;
      for (const Entry& item : list_of(entry)) fractions.insert(jobs::number_in(item));
    }
    if (fractions.empty()) fractions = {1.0};
    if (fractions.size() > kMostFractions || !(*fractions.begin() > 0) || *fractions.rbegin() > 1)
      fail(entry, fmt::format("found {}, expected 1 to {} numbers above 0, at most 1", fmt::join(fractions, ", "),
                              kMostFractions));
    experiment_.fractions.assign(fractions.begin(), fractions.end());
  }

  void read_seeds(const std::map<std::string, Entry>& keys) {
    auto count = choice_.seeds;
    const auto given = keys.find("seeds");
    if (count == 0 && given != keys.end() && given->second.node.IsSequence()) {
      for (const Entry& item : list_of(given->second)) experiment_.seeds.push_back(jobs::seed_in(item));
      const std::set<uint64_t> different(experiment_.seeds.begin(), experiment_.seeds.end());
      if (different.empty() || different.size() != experiment_.seeds.size())
        fail(given->second, "found no seed, or one twice");
      return;
    }
    if (count == 0) count = given == keys.end() ? 1 : jobs::integer_in(given->second, 1, kMostSeeds);
    for (int64_t i = 0; i < count; ++i)
      experiment_.seeds.push_back(experiment_.base.trainer.seed + static_cast<uint64_t>(i));
  }

  void read_entry(const Entry& map) {
    ExperimentEntry entry;
    const std::vector<std::string> known = {"label", "kind", "set",    "features", "records",
                                            "dags",  "rows", "target", "preset",   "rounds"};
    bool has_boosted = false;
    for (const Entry& item : items_of(map, origin_, "", known)) {
      if (item.key == "label") {
        entry.label = jobs::text_in(item, kLabel);
      } else if (item.key == "kind") {
        const auto kind = jobs::choice_in(item, {"model", "mean", "random", "xgboost"});
        for (const auto each : {EntryKind::model, EntryKind::mean, EntryKind::random, EntryKind::xgboost}) {
          if (to_string(each) == kind) entry.kind = each;
        }
      } else if (item.key == "set") {
        entry.set = jobs::flatten_overrides(item, origin_);
        check_own(entry.set);
      } else {
        has_boosted = true;
        read_xgboost(item, entry.xgboost);
      }
    }
    if (entry.label.empty()) fail(map, "found an entry without label");
    const auto where = Entry{"entries: " + entry.label, map.node, map.place};
    if (has_boosted != (entry.kind == EntryKind::xgboost))
      fail(where,
           "features, records, dags, rows, target, preset and rounds belong to kind xgboost, which needs features");
    if (entry.kind == EntryKind::xgboost) check_xgboost(where, entry.xgboost);
    if (entry.kind != EntryKind::model && !entry.set.empty()) fail(where, "set belongs to kind model");
    for (const auto& other : experiment_.entries) {
      if (other.slug() == entry.slug())
        fail(where, fmt::format("found a second entry with the file name {}", entry.slug()));
    }
    if (experiment_.entries.size() == kMostEntries)
      fail(where, fmt::format("found more than {} entries", kMostEntries));
    experiment_.entries.push_back(std::move(entry));
  }

  static void check_xgboost(const Entry& where, const XgboostSettings& xgboost) {
    if (xgboost.features.empty() == xgboost.records.empty()) fail(where, "expected either features or records");
    if (xgboost.records.empty() != xgboost.dags.empty()) fail(where, "records and dags belong together");
    if (!xgboost.records.empty() && !xgboost.statements)
      fail(where, "records have features of statements: rows: statements");
  }

  static void read_xgboost(const Entry& item, XgboostSettings& xgboost) {
    if (item.key == "features") xgboost.features = texts_of(item);
    if (item.key == "records") xgboost.records = jobs::text_in(item, kPath);
    if (item.key == "dags") xgboost.dags = jobs::text_in(item, kPath);
    if (item.key == "rows") xgboost.statements = jobs::choice_in(item, {"loops", "statements"}) == "statements";
    if (item.key == "target") xgboost.target = jobs::choice_in(item, {"time", "flop"});
    if (item.key == "preset")
      xgboost.preset = jobs::choice_in(item, {"tvm", "squares", "pairs", "regression", "ranking"});
    if (item.key == "rounds") xgboost.rounds = jobs::integer_in(item, 1, 100000);
  }

  void choose_entries(const Entry& place) {
    if (choice_.entries.empty()) return;
    std::vector<ExperimentEntry> chosen;
    std::vector<std::string> labels;
    for (const auto& entry : experiment_.entries) labels.push_back(entry.label);
    for (const auto& wanted : choice_.entries) {
      const auto found = std::find_if(experiment_.entries.begin(), experiment_.entries.end(), [&](const auto& entry) {
        return entry.label == wanted || entry.slug() == wanted;
      });
      if (found == experiment_.entries.end())
        fail(place, fmt::format("found no entry {}, expected some of {}", wanted, fmt::join(labels, ", ")));
      chosen.push_back(*found);
    }
    experiment_.entries = std::move(chosen);
  }

  void read_reference(const Entry& map) {
    Reference reference;
    auto known = metric_names();
    known.emplace_back("label");
    for (const Entry& item : items_of(map, origin_, "", known)) {
      if (item.key == "label") {
        reference.label = jobs::text_in(item, kLabel);
      } else {
        reference.metrics[item.key] = jobs::number_in(item);
      }
    }
    if (reference.label.empty()) fail(map, "found a reference without label");
    experiment_.references.push_back(std::move(reference));
  }

  std::string origin_;
  fs::path folder_;
  const ExperimentChoice& choice_;
  Experiment experiment_;
};

}  // namespace

std::string to_string(EntryKind kind) {
  switch (kind) {
    case EntryKind::model:
      return "model";
    case EntryKind::mean:
      return "mean";
    case EntryKind::random:
      return "random";
    case EntryKind::xgboost:
      return "xgboost";
  }
  return "";
}

std::string ExperimentEntry::slug() const {
  std::string slug;
  for (const char c : label) {
    const auto code = static_cast<unsigned char>(c);
    if (std::isalnum(code) != 0 && code < 0x80) {
      slug += static_cast<char>(std::tolower(code));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.empty() ? "entry" : slug;
}

fs::path find_experiment(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  const auto file = fs::path(kFolder) / (name + ".yaml");
  if (fs::is_regular_file(file)) return file;
  std::set<std::string> known;
  std::error_code failure;
  for (const auto& item : fs::directory_iterator(kFolder, failure)) {
    if (item.path().extension() == ".yaml") known.insert(item.path().stem().string());
  }
  throw jobs::SweepError(fmt::format(
      "{}: no such experiment: expected a YAML file, or a name in {}/ of the working folder ({})", name, kFolder,
      known.empty() ? "there is none; start in the project's folder" : fmt::format("{}", fmt::join(known, ", "))));
}

Experiment parse_experiment(const std::string& yaml, const std::string& origin, const fs::path& folder,
                            const ExperimentChoice& choice) {
  return Reader(origin, folder, choice).read(yaml);
}

Experiment load_experiment(const fs::path& file, const ExperimentChoice& choice) {
  return parse_experiment(jobs::read_sweep_text(file.string()), file.string(), file.parent_path(), choice);
}

}  // namespace foretime::cli
