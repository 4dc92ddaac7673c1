#include "jobs/sweep/sweep_document.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "configs/fields.h"
#include "configs/load.h"
#include "configs/metrics.h"
#include "jobs/error.h"
#include "jobs/sweep/setting_overrides.h"
#include "metrics/metric_table.h"

namespace foretime::jobs {
namespace {

using configs::YamlEntry;

/// Suffixes such as -100000-evaluate must fit behind it.
constexpr size_t kSweepName = Limits::kName - 40;
constexpr int64_t kMostRuns = 1000000;

/// Keys that may stand on the command line as key=value; all others there are settings.
const std::vector<std::string> kCommandLine = {"run_cap",  "name",     "seed",         "seeds",
                                               "settings", "priority", "max_attempts", "program"};
const std::vector<std::string> kWithoutMeaning = {"project",    "entity", "description", "controller",
                                                  "apiVersion", "kind",   "job",         "image_uri"};
constexpr int64_t kMostWords = 1000;
constexpr size_t kLongestPattern = 2000;

class DocumentReader {
 public:
  DocumentReader(const std::string& origin, const std::filesystem::path& folder) : origin_(origin), folder_(folder) {
    document_.origin = origin;
    document_.name = std::filesystem::path(origin).stem().string();
  }

  SweepDocument read(const std::string& yaml, const std::vector<std::string>& overrides) {
    YamlEntry root{"", configs::parse_yaml(yaml, origin_), origin_};
    remove_extensions(root.node);
    std::vector<std::string> known = {"method",  "metric",    "parameters", "run_cap",      "early_terminate",
                                      "name",    "settings",  "overrides",  "seed",         "seeds",
                                      "then",    "resources", "priority",   "max_attempts", "program",
                                      "command", "rename",    "metric_from"};
    known.insert(known.end(), kWithoutMeaning.begin(), kWithoutMeaning.end());
    known.insert(known.end(), {"scheduler", "metrics"});
    std::map<std::string, YamlEntry> entries;
    for (const YamlEntry& item : items_of(root, origin_, "", known)) entries.emplace(item.key, item);
    std::vector<SettingOverride> from_command_line;
    for (const std::string& text : overrides) read_override(text, entries, from_command_line);

    for (const char* needed : {"method", "parameters"})
      if (!entries.contains(needed))
        configs::fail({needed, {}, origin_}, "is missing; a sweep has method and parameters");
    read_program(entries);
    if (const auto rename = entries.find("rename"); rename != entries.end()) read_rename(rename->second);
    const bool says_what_runs = document_.program || entries.contains("settings") || entries.contains("overrides");
    for (const auto& [key, entry] : entries) {
      try {
        read_key(key, entry);
      } catch (const configs::SettingsError& error) {
        if (says_what_runs || (key != "metric" && key != "parameters")) throw;
        throw SweepError(
            "{}: found neither program nor settings, expected one: program=train.py (in the file: "
            "program: train.py) sweeps a script of your own, settings=my.yaml sweeps those settings of foretime train; "
            "as a sweep of the default settings: {}",
            origin_, error.what());
      }
    }
    if (document_.halving.enabled() && !entries.contains("metric"))
      fail(entries.at("early_terminate"), "needs metric, by which trials are compared");
    if (document_.method == "bayes" && !entries.contains("metric"))
      fail(entries.at("method"), "found bayes without metric, which says what to optimise");
    check_rename();
    if (document_.program) read_constants(entries, from_command_line);
    else read_settings(entries, from_command_line);
    if (const auto seeds = entries.find("seeds"); seeds != entries.end()) read_seeds(seeds->second);
    return std::move(document_);
  }

 private:
  /// Removes top-level keys that begin with x- or a dot, which hold definitions for aliases, as in Compose and GitLab.
  static void remove_extensions(YAML::Node& root) {
    std::vector<std::string> names;
    for (const auto& item : root) {
      const auto name = item.first.IsScalar() ? item.first.Scalar() : "";
      if (name.starts_with("x-") || name.starts_with(".")) names.push_back(name);
    }
    for (const auto& name : names) root.remove(name);
  }

  void read_override(const std::string& text, std::map<std::string, YamlEntry>& entries,
                     std::vector<SettingOverride>& settings) {
    const std::string place = "override " + text;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw SweepError(place + ": found no key=value, expected an override such as run_cap=12 or trainer.steps=100");
    std::string key = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    if (key == "metric.name" || key == "metric.goal") {
      const auto found = entries.find("metric");
      YAML::Node metric = found == entries.end() ? YAML::Node(YAML::NodeType::Map) : YAML::Clone(found->second.node);
      metric[key.substr(key.find('.') + 1)] = value;
      entries["metric"] = {"metric", metric, place};
      return;
    }
    const bool of_sweep = std::find(kCommandLine.begin(), kCommandLine.end(), key) != kCommandLine.end();
    if (of_sweep) {
      const bool list = value.starts_with('[');
      const YAML::Node node = list ? configs::parse_yaml("value: " + value, place)["value"] : YAML::Node(value);
      entries[key] = {key, node, place};
      if (key == "settings") settings_folder_ = std::filesystem::path();  // relative to where the user is
      return;
    }
    if (key.starts_with("set.")) key = key.substr(4);
    settings.push_back({key, value, {key, YAML::Node(value), place}});
  }

  void read_key(const std::string& key, const YamlEntry& entry) {
    if (key == "method") {
      document_.method = choice_in(entry, {"grid", "random", "bayes"});
    } else if (key == "metric") {
      read_metric(entry);
    } else if (key == "parameters") {
      ParameterNotes notes;
      document_.space = read_parameters(entry, origin_, &notes, {document_.program.has_value(), rename_});
      document_.places = std::move(notes.places);
      for (const auto& [parameter, text] : notes.warnings) warn(parameter, text);
      used_names_.insert(notes.renamed.begin(), notes.renamed.end());
      if (document_.program) document_.program->nested = std::move(notes.nested);
    } else if (key == "run_cap") {
      document_.run_cap = integer_in(entry, 1, kMostRuns);
    } else if (key == "early_terminate") {
      read_early_terminate(entry);
    } else if (key == "name") {
      document_.name = text_in(entry, kSweepName);
    } else if (key == "seed") {
      document_.seed = seed_in(entry);
    } else if (key == "then") {
      read_then(entry);
    } else if (key == "resources") {
      for (const YamlEntry& item : items_of(entry, origin_, "resources.", {"ranks", "cpus", "gpus"})) {
        if (item.key == "resources.ranks") read_ranks(item);
        if (item.key == "resources.cpus") document_.resources.cpus = integer_in(item, 1, 65536);
        if (item.key == "resources.gpus") document_.resources.gpus = integer_in(item, 0, 1024);
      }
    } else if (key == "priority") {
      document_.priority = integer_in(entry, -Limits::kPriority, Limits::kPriority);
    } else if (key == "max_attempts") {
      document_.max_attempts = integer_in(entry, 1, Limits::kAttempts);
    } else if (key == "scheduler") {
      for (const YamlEntry& item : items_of(entry, origin_, "scheduler.", {"num_workers", "resource", "resource_args"}))
        warn(item, "has no meaning here: agents take as many trials at once as fit them");
    } else if (key == "metric_from" && !document_.program) {
      fail(entry, "is for a sweep of a program: foretime train reports its metrics");
    } else if (key == "metrics") {
      fail(entry, "is not supported: expected one metric, and one of the methods grid, random and bayes");
    } else if (std::find(kWithoutMeaning.begin(), kWithoutMeaning.end(), key) != kWithoutMeaning.end()) {
      const bool runs = key == "job" || key == "image_uri";
      warn(entry, runs ? "has no meaning here: every trial runs foretime train, or program" : "has no meaning here");
    }
  }

  /// A sweep with settings is one of foretime train, whatever program W&B would run.
  void read_program(const std::map<std::string, YamlEntry>& entries) {
    const auto program = entries.find("program"), command = entries.find("command");
    if (entries.contains("settings")) {
      for (const auto& found : {program, command})
        if (found != entries.end())
          warn(found->second, "has no meaning beside settings: every trial runs foretime train");
      return;
    }
    if (program == entries.end() && command == entries.end()) return;
    ProgramTrial trial{program == entries.end() ? "" : text_in(program->second, Limits::kPath), default_command(), {}};
    if (command != entries.end()) {
      const YamlEntry& words = command->second;
      if (!words.node.IsSequence() || words.node.size() > kMostWords)
        fail(words,
             fmt::format(
                 "expected a list of at most {} words such as [${{env}}, ${{interpreter}}, ${{program}}, ${{args}}]",
                 kMostWords));
      if (words.node.size() > 0) trial.command.clear();  // none: the default, as W&B has it
      for (const YAML::Node& node : words.node) {
        const YamlEntry word{"command", node, words.place};
        if (!node.IsScalar()) fail(word, "expected text in the list");
        trial.command.push_back(node.Scalar());
        if (const auto fault = word_fault(trial.command.back()); !fault.empty()) fail(word, fault);
      }
    }
    const bool needed = std::find(trial.command.begin(), trial.command.end(), "${program}") != trial.command.end();
    if (needed && trial.program.empty()) fail(command->second, "found ${program} but no program, expected one");
    for (const char* of_training : {"seeds", "then"})
      if (const auto found = entries.find(of_training); found != entries.end())
        fail(found->second,
             fmt::format(
                 "is for trials of foretime train, and this sweep has a program: {}",
                 of_training == std::string("seeds") ? "sweep a parameter of the program for seeds" : "leave it out"));
    if (const auto printed = entries.find("metric_from"); printed != entries.end()) {
      for (const YamlEntry& item : items_of(printed->second, origin_, "metric_from.", {"stdout"}))
        trial.stdout_pattern = text_in(item, kLongestPattern);
      if (trial.stdout_pattern.find('(') == std::string::npos || !entries.contains("metric"))
        fail(printed->second, "expected {stdout: 'val_loss ([0-9.e+-]+)'}, with a group around the number, and metric");
    }
    document_.program = std::move(trial);
  }

  void read_rename(const YamlEntry& rename) {
    for (const YamlEntry& item : items_of(rename, origin_, "", {})) {
      rename_[item.key] = item.node.IsNull() ? "" : text_in(item, Limits::kName);
      rename_entries_.emplace(item.key, item);
    }
  }
  void check_rename() const {
    for (const auto& [key, entry] : rename_entries_)
      if (!used_names_.contains(key))
        configs::fail({"rename." + key, entry.node, entry.place},
                      fmt::format("found no parameter {}, and no metric of that name", key));
  }

  /// Overrides of a sweep of a program: parameters with one value.
  void read_constants(const std::map<std::string, YamlEntry>& entries,
                      const std::vector<SettingOverride>& command_line) {
    std::vector<SettingOverride> all;
    if (const auto overrides = entries.find("overrides"); overrides != entries.end())
      all = flatten_overrides(overrides->second, origin_, parameter_text);
    for (const SettingOverride& item : command_line) {
      all.push_back(item);
      const YAML::Node value = configs::parse_document(item.value, item.entry.place);
      all.back().value = parameter_text({item.key, value, item.entry.place});
    }
    std::map<std::string, std::string> values;
    for (const SettingOverride& item : all) {
      if (const auto swept = document_.places.find(item.key); swept != document_.places.end())
        fail(item.entry, fmt::format("is swept at {}; take it out of parameters to give it one value", swept->second));
      values[item.key] = item.value;
    }
    for (const auto& [key, value] : values)
      document_.space.push_back({.key = key, .distribution = Distribution::constant, .values = {value}});
    std::sort(document_.space.begin(), document_.space.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
  }

  /// A number, or {min, max}.
  void read_ranks(const YamlEntry& entry) {
    auto& resources = document_.resources;
    if (entry.node.IsMap()) {
      resources.ranks = resources.most_ranks = 0;
      for (const YamlEntry& item : items_of(entry, origin_, "resources.ranks.", {"min", "max"})) {
        if (item.key == "resources.ranks.min") resources.ranks = integer_in(item, 1, 65536);
        if (item.key == "resources.ranks.max") resources.most_ranks = integer_in(item, 1, 65536);
      }
      if (resources.ranks == 0 || resources.most_ranks == 0)
        fail(entry,
             fmt::format("found no {}, expected {{min: 2, max: 8}} or a number", resources.ranks == 0 ? "min" : "max"));
      if (resources.most_ranks < resources.ranks)
        fail(entry, fmt::format("found min {} and max {}, expected a max of at least min", resources.ranks,
                                resources.most_ranks));
      if (resources.most_ranks == resources.ranks) resources.most_ranks = 0;
    } else {
      resources.ranks = integer_in(entry, 1, 65536);
      resources.most_ranks = 0;
    }
  }

  void read_metric(const YamlEntry& metric) {
    std::optional<YamlEntry> goal;
    for (const YamlEntry& item :
         items_of(metric, origin_, "metric.", {"name", "goal", "target", "impute", "impute_while_running"})) {
      if (item.key == "metric.name") {
        document_.metric = text_in(item, Limits::kName);
        if (const auto renamed = rename_.find(document_.metric); renamed != rename_.end()) {
          used_names_.insert(document_.metric);
          if (renamed->second.empty()) fail(item, "is left out by rename, and a sweep needs its metric");
          document_.metric = renamed->second;
        }
        if (document_.program) continue;
        if (const auto fault = configs::metric_name_fault(document_.metric); !fault.empty())
          fail(item, fault + " (rename: {" + item.node.Scalar() + ": …} gives it another name)");
      } else if (item.key == "metric.goal") {
        document_.maximize = choice_in(item, {"minimize", "maximize"}) == "maximize";
        goal = item;
      } else {
        if (item.key == "metric.target") number_in(item);
        warn(item, item.key == "metric.target" ? "has no meaning here: the sweep continues after a trial reaches it"
                                               : "has no meaning here: failed and running trials count as the worst");
      }
    }
    if (document_.metric.empty()) fail(metric, "found no name, expected one such as valid/kendall_tau");
    if (document_.program) return;
    const bool lower = metrics::find_metric(document_.metric)->lower_is_better;
    if (goal && document_.maximize == lower)
      fail(*goal, fmt::format("found {}, and {} is better when it is {}; leave the goal out, or set it to {}",
                              lower ? "maximize" : "minimize", document_.metric, lower ? "smaller" : "larger",
                              lower ? "minimize" : "maximize"));
    document_.maximize = !lower;
  }

  void read_early_terminate(const YamlEntry& rule) {
    std::optional<int64_t> min_iter, max_iter, s;
    double eta = 3;
    bool has_type = false;
    const std::string prefix = "early_terminate.";
    for (const YamlEntry& item :
         items_of(rule, origin_, prefix, {"type", "min_iter", "max_iter", "s", "eta", "strict"})) {
      const std::string key = item.key.substr(prefix.size());
      if (key == "type") has_type = !choice_in(item, {"hyperband"}).empty();
      if (key == "min_iter") min_iter = integer_in(item, 1, 1000000000);
      if (key == "max_iter") max_iter = integer_in(item, 1, 1000000000);
      if (key == "s") s = integer_in(item, 1, 64);
      if (key == "eta") eta = number_in(item);
      if (key == "strict" && !flag_in(item)) warn(item, "found false: trials are always judged at the rung itself");
    }
    if (!has_type) fail(rule, "found no type, expected type: hyperband");
    if (min_iter && max_iter) fail(rule, "found min_iter and max_iter, expected one of them");
    if (max_iter && !s) fail(rule, "found max_iter without s, the number of rungs below it");
    if (s && !max_iter) fail(rule, "found s without max_iter, from which it counts down");
    if (!min_iter && !max_iter) fail(rule, "found neither min_iter, nor max_iter and s");
    try {
      document_.halving = min_iter ? halving_from_min(*min_iter, eta) : halving_from_max(*max_iter, *s, eta);
    } catch (const SweepError& error) {
      fail(rule, error.what());
    }
  }

  void read_then(const YamlEntry& then) {
    std::vector<YamlEntry> jobs;
    const std::vector<std::string> kinds = {"evaluate", "export"};
    if (then.node.IsScalar()) {
      jobs.push_back({choice_in(then, kinds), YAML::Node(), then.place});
    } else if (then.node.IsMap()) {
      jobs = items_of(then, origin_, "", kinds);
    } else if (then.node.IsSequence()) {
      for (const YAML::Node& node : then.node) {
        if (node.IsMap()) {
          for (const YamlEntry& item : configs::items_of({"then", node, then.place}, origin_, "", kinds))
            jobs.push_back(item);
        } else {
          jobs.push_back({configs::choice_in({"then", node, then.place}, kinds), YAML::Node(), then.place});
        }
      }
    } else {
      fail(then, "found nothing, expected a list of evaluate and export");
    }
    for (const YamlEntry& job : jobs) {
      const JobKind kind = parse_job_kind(job.key);
      for (const FollowUp& earlier : document_.then)
        if (earlier.kind == kind)
          configs::fail({"then", job.node, job.place}, fmt::format("found {} a second time", job.key));
      document_.then.push_back({kind, kind == JobKind::evaluate ? evaluation(job) : ""});
      if (kind == JobKind::export_ && !job.node.IsNull() && (!job.node.IsMap() || job.node.size() > 0))
        configs::fail({"then.export", job.node, job.place}, "found options, but export takes none");
    }
    // Export waits for evaluate where both are there.
    std::sort(document_.then.begin(), document_.then.end(),
              [](const FollowUp& a, const FollowUp& b) { return a.kind < b.kind; });
  }

  std::string evaluation(const YamlEntry& job) const {
    std::vector<std::string> files, settings;
    if (!job.node.IsNull()) {
      for (const YamlEntry& item : items_of(job, origin_, "then.evaluate.", {"files", "set"})) {
        if (item.key == "then.evaluate.files") {
          if (!item.node.IsScalar() && !item.node.IsSequence()) fail(item, "expected a list of file patterns");
          if (item.node.IsScalar()) files.push_back(text_in(item, 4096));
          if (item.node.IsSequence())
            for (const YAML::Node& file : item.node)
              files.push_back(configs::text_in({item.key, file, item.place}, 4096));
        } else {
          const std::vector<SettingOverride> leaves = flatten_overrides(item, origin_);
          check_overrides(leaves);
          for (const SettingOverride& leaf : leaves)
            settings.push_back(fmt::format("{}: {}", leaf.key, configs::write_string(leaf.value)));
        }
      }
    }
    for (std::string& file : files) file = configs::write_string(file);
    std::sort(settings.begin(), settings.end());
    return fmt::format("files: [{}]\nset: {{{}}}\n", fmt::join(files, ", "), fmt::join(settings, ", "));
  }

  void read_settings(const std::map<std::string, YamlEntry>& entries,
                     const std::vector<SettingOverride>& command_line) {
    std::vector<SettingOverride> all;
    if (const auto overrides = entries.find("overrides"); overrides != entries.end())
      all = flatten_overrides(overrides->second, origin_);
    all.insert(all.end(), command_line.begin(), command_line.end());
    check_overrides(all);
    std::vector<std::string> texts;
    for (const SettingOverride& item : all) {
      if (const auto swept = document_.places.find(item.key); swept != document_.places.end())
        fail(item.entry, fmt::format("is swept at {}; take it out of parameters to give it one value", swept->second));
      texts.push_back(item.key + "=" + item.value);
    }
    const auto settings = entries.find("settings");
    if (settings == entries.end()) {
      document_.base = configs::parse_settings("{}", origin_, texts);
    } else {
      const std::filesystem::path file = settings_folder_.value_or(folder_) / text_in(settings->second, 4096);
      if (!files().exists(file))
        fail(settings->second,
             fmt::format(
                 "found {}, which does not exist; expected the settings file that is swept, relative to the sweep file",
                 file.string()));
      document_.base = configs::load_settings(file, texts);
    }
    if (document_.base.data.train.empty() && !document_.places.contains("data.train"))
      throw SweepError(
          "{}: data.train: found no files to train on; name the settings file that is swept (settings: "
          "my.yaml in the sweep file, or settings=my.yaml on the command line) or set data.train",
          origin_);
    const auto fixed = [&](const std::string& key) {
      return document_.places.contains(key) ||
             std::any_of(all.begin(), all.end(), [&](const SettingOverride& item) { return item.key == key; });
    };
    configs::TrainerSettings& trainer = document_.base.trainer;
    if (document_.metric.empty()) {
      document_.metric = trainer.metric;
      document_.maximize = configs::maximizes(trainer);
    } else {
      if (!fixed("trainer.metric")) trainer.metric = document_.metric;
      if (!fixed("trainer.metric_goal")) trainer.metric_goal = configs::Goal::auto_;
    }
  }

  void read_seeds(const YamlEntry& entry) {
    if (document_.method == "bayes")
      fail(entry, "found seeds with bayes, which decides each trial by itself; sweep with random, or without seeds");
    if (document_.places.contains("trainer.seed")) fail(entry, "found seeds while trainer.seed is swept");
    if (!entry.node.IsSequence()) {
      const int64_t count = integer_in(entry, 1, 10000);
      for (int64_t i = 0; i < count; ++i) document_.seeds.push_back(document_.base.trainer.seed + i);
      return;
    }
    for (const YAML::Node& node : entry.node) {
      const uint64_t seed = configs::seed_in({entry.key, node, entry.place});
      if (std::find(document_.seeds.begin(), document_.seeds.end(), seed) != document_.seeds.end())
        fail(entry, fmt::format("found {} a second time", seed));
      document_.seeds.push_back(seed);
    }
    if (document_.seeds.empty()) fail(entry, "found an empty list, expected a number or a list of seeds");
  }

  void warn(const YamlEntry& entry, const std::string& text) {
    document_.warnings.push_back(fmt::format("{}: {}: {}", entry.place, entry.key, text));
  }

  std::string origin_;
  std::filesystem::path folder_;
  std::optional<std::filesystem::path> settings_folder_;
  std::map<std::string, std::string> rename_;  // name in the file -> ours, or empty: left out
  std::map<std::string, YamlEntry> rename_entries_;
  std::set<std::string> used_names_;  // names in rename_ that were used
  SweepDocument document_;
};

}  // namespace

SweepDocument read_document(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                            const std::vector<std::string>& overrides) {
  return DocumentReader(origin, folder).read(yaml, overrides);
}

}  // namespace foretime::jobs
