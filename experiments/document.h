#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "configs/settings.h"
#include "jobs/sweep/sweep.h"

/// Describes experiments: models trained on growing shares of the same data with several seeds, evaluated on the same
/// test groups, next to baselines. docs/reference/experiment-files.md has the grammar.
namespace foretime::experiments {

/// Reports an experiment that contradicts itself or names something that does not exist. The message names file, key,
/// value and expectation.
struct ExperimentError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// Says what an entry predicts. model: a model trained like by `foretime train`; mean: the mean run time of the
/// training candidates; random: a random order; ceiling: each configuration's mean over all of its measurements, the
/// best that noise allows; xgboost: boosted trees on features from a file or from layouts (models/baselines/).
FORETIME_CHOICE(EntryKind, model, mean, random, ceiling, xgboost);

/// Gives the input of boosted trees: one row for each program (AutoTVM's loops); one row for each statement, TVM's
/// scheme; or one row for each layout, with the layout of each configurable node, and separate trees for each graph.
FORETIME_CHOICE(BoostedRows, loops, statements, layout_codes);

/// Sets how an entry of kind xgboost learns.
struct XgboostSettings {
  std::vector<std::string> features;  // .npz files, relative to data.root; a program's row is found by its id
  std::string records,
      dags;  // replace features: tuning records whose 0-based lines are the programs' ids, and compute DAGs
  BoostedRows rows = BoostedRows::loops;
  std::string target = "flop";   // loops: logarithm of time | of time per operation (flop)
  std::string preset = "pairs";  // statements: models::throughput_presets
  int64_t rounds = 0;            // 0: default of the baseline command
};

/// Describes one of the compared models.
struct ExperimentEntry {
  std::string label;
  EntryKind kind = EntryKind::model;
  std::vector<jobs::SettingOverride> set = {};  // kind model: applied to the experiment's settings
  XgboostSettings xgboost = {};
  std::optional<configs::Settings> own = {};  // settings from the entry's file, with the experiment's overrides applied

  /// Returns the label in the form of a file name.
  std::string slug() const;
  bool is_learned() const { return kind == EntryKind::model || kind == EntryKind::xgboost; }
};

/// Holds known values for comparison, from a publication or another program.
struct Reference {
  std::string label;
  std::map<std::string, double> values;  // key: metric or column title; times in milliseconds
};

/// Names groups that are shown as one, for example those of one network.
struct GroupClass {
  std::string label;
  std::vector<std::string> patterns;  // patterns of group names, with * ? and {a,b}
};

/// Describes a column of the main table: a metric over some of the evaluated groups.
struct Column {
  std::string title;  // empty: title of the metric
  std::string metric;
  std::string set;                  // empty: all sets
  std::vector<std::string> groups;  // patterns of group names; empty: all

  bool is_filtered() const { return !set.empty() || !groups.empty(); }
};

/// Sets leave-groups-out folds: fold f tests the groups whose index in the list of all groups is f modulo the count,
/// and trains on the others.
struct FoldRule {
  int64_t count = 0;                // 0: no folds
  std::vector<std::string> groups;  // files, folders and globs, like data.train
};

/// Holds the settings of a file, or of one part of it.
struct Experiment {
  std::string origin, name, part, variant, title, description;  // part: empty in a file without parts
  configs::Settings base;
  std::vector<ExperimentEntry> entries;
  std::vector<jobs::SettingOverride>
      last;                       // applied after the entries' settings: the variant's, then the command line's
  std::vector<double> fractions;  // shares of the training candidates, ascending; the last one is "all"
  std::vector<uint64_t> seeds;
  FoldRule folds;
  std::vector<std::string> sets;          // evaluated sets: test, valid or holdout
  std::vector<std::string> metrics;       // ordered like in the tables; the first one is the experiment's main metric
  std::vector<Column> columns;            // columns of the main table; default: the metrics over all groups
  bool has_columns = false;               // the file lists columns
  std::string remeasured;                 // .npz with id and runtime, relative to data.root; empty: none
  std::vector<std::string> requirements;  // paths relative to data.root; the part is skipped if one is missing
  std::string submission;                 // TpuGraphs collection of the contest's lines, or by_name; empty: none
  std::vector<Reference> references;
  std::vector<GroupClass> classes;

  /// Returns "name", or "name/part" for a part.
  std::string full_name() const { return part.empty() ? name : name + "/" + part; }
};

/// Holds an experiment's file: one experiment without parts, or its parts in the order of the file.
struct ExperimentFile {
  std::string origin, name, variant, title, description;
  bool has_parts = false;
  std::vector<Experiment> parts;
};

/// Holds the choices of the command line; empty members keep the file's values.
struct ExperimentChoice {
  std::string variant = {};
  std::vector<std::string> entries = {};  // labels, or their form as file names
  std::vector<double> fractions = {};
  int64_t seeds = 0;                        // number of seeds, counted from trainer.seed
  std::vector<std::string> overrides = {};  // settings in the form key=value
  std::vector<std::string> parts = {};      // names of parts
  std::string data_root = {};               // replaces data.root of all parts
};

/// Returns the path of a YAML file given by its path or by its name in configs/experiments/ below the working folder.
/// Throws ExperimentError that lists the existing names.
std::filesystem::path find_experiment(const std::string& name);

/// Reads an experiment's file. Throws ExperimentError and configs::SettingsError with file, line (or override), key,
/// value and expectation.
ExperimentFile load_experiments(const std::filesystem::path& file, const ExperimentChoice& choice = {});
ExperimentFile parse_experiments(const std::string& yaml, const std::string& origin,
                                 const std::filesystem::path& folder, const ExperimentChoice& choice = {});
/// Returns the first missing requirement of the experiment; empty if none is missing.
std::string missing_requirement(const Experiment& experiment);

}  // namespace foretime::experiments
