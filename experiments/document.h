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

/// An experiment: models trained on growing shares of the same data with several seeds, measured on the same test
/// groups, beside baselines. docs/reference/experiment-files.md has the grammar.
namespace foretime::experiments {

/// An experiment that contradicts itself or names what is not there; names file, key, value and what was expected.
struct ExperimentError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// What an entry predicts. model: as `foretime train` trains it; mean: the mean run time of the training candidates;
/// random: a random order; ceiling: each configuration's mean over all of its measurements, what noise leaves to reach;
/// xgboost: what boosted trees learn from features that a file holds, or from layouts (models/baselines/).
FORETIME_CHOICE(EntryKind, model, mean, random, ceiling, xgboost);

/// What boosted trees see of a candidate: one row a program (AutoTVM's loops); one row a statement, TVM's scheme; or
/// one row a layout, which has the layout of each configurable node, with trees for each graph.
FORETIME_CHOICE(BoostedRows, loops, statements, layout_codes);

/// How an entry of kind xgboost learns.
struct XgboostSettings {
  std::vector<std::string> features;  // .npz files, relative to data.root; a program's rows are found by its id
  std::string records, dags;          // instead: tuning records whose 0-based lines name the programs, and compute DAGs
  BoostedRows rows = BoostedRows::loops;
  std::string target = "flop";   // loops: logarithm of time | of time per operation (flop)
  std::string preset = "pairs";  // statements: models::throughput_presets
  int64_t rounds = 0;            // 0: as the baseline command has them
};

/// One of the models that are compared.
struct ExperimentEntry {
  std::string label;
  EntryKind kind = EntryKind::model;
  std::vector<jobs::SettingOverride> set = {};  // kind model: over the experiment's settings
  XgboostSettings xgboost = {};
  std::optional<configs::Settings> own = {};  // of its own settings file, with the experiment's overrides over it

  /// The label as a file name.
  std::string slug() const;
  bool is_learned() const { return kind == EntryKind::model || kind == EntryKind::xgboost; }
};

/// Known values to compare with, of a publication or of another program.
struct Reference {
  std::string label;
  std::map<std::string, double> values;  // by metric or column title, as they are shown: times in milliseconds
};

/// Groups that are shown as one: those of one network, for example.
struct GroupClass {
  std::string label;
  std::vector<std::string> patterns;  // of group names, with * ? and {a,b}
};

/// A column of the main table: a metric over some of the groups that were measured.
struct Column {
  std::string title;  // empty: the metric's
  std::string metric;
  std::string set;                  // empty: of all sets
  std::vector<std::string> groups;  // patterns of names; empty: all

  bool is_filtered() const { return !set.empty() || !groups.empty(); }
};

/// Leave-groups-out: fold f tests the groups whose position among all is f modulo the count, and trains on the others.
struct FoldRule {
  int64_t count = 0;                // 0: no folds
  std::vector<std::string> groups;  // files, folders, globs, as data.train has them
};

FORETIME_CHOICE(FigureKind, curves, scatter, groups, metrics);

struct FigureSpec {
  std::string file;  // name.svg in the output folder
  FigureKind kind = FigureKind::curves;
  std::string title;                 // empty: the experiment's
  std::vector<std::string> metrics;  // curves, groups: one
  std::vector<std::string> entries;  // labels; empty: curves, scatter and groups all that learn, metrics likewise
  bool log_x = false, log_y = false;
};

/// What one file asks for, or one part of it.
struct Experiment {
  std::string origin, name, part, variant, title, description;  // part: empty in a file without parts
  configs::Settings base;
  std::vector<ExperimentEntry> entries;
  std::vector<jobs::SettingOverride> last;  // over the entries' own: the variant's, then the command line's
  std::vector<double> fractions;            // of the training candidates, ascending; the last one is "all"
  std::vector<uint64_t> seeds;
  FoldRule folds;
  std::vector<std::string> sets;          // test, valid or holdout: what is measured
  std::vector<std::string> metrics;       // in the order of the tables; the first one is the experiment's own
  std::vector<Column> columns;            // of the main table; without any in the file, the metrics over all groups
  bool has_columns = false;               // the file has them
  std::string remeasured;                 // .npz with id and runtime, relative to data.root; empty: none
  std::vector<std::string> requirements;  // paths relative to data.root, without which it is left out
  std::string submission;                 // the collection of the contest's lines | by_name | empty: none
  std::vector<Reference> references;
  std::vector<GroupClass> classes;
  std::vector<FigureSpec> figures;

  /// "name", or "name/part".
  std::string full_name() const { return part.empty() ? name : name + "/" + part; }
};

/// An experiment's file: one experiment without parts, or its parts in the order of the file.
struct ExperimentFile {
  std::string origin, name, variant, title, description;
  bool has_parts = false;
  std::vector<Experiment> parts;
};

/// What the command line chooses; what is empty is as in the file.
struct ExperimentChoice {
  std::string variant = {};
  std::vector<std::string> entries = {};  // labels, or their file names
  std::vector<double> fractions = {};
  int64_t seeds = 0;                        // the first so many from trainer.seed on
  std::vector<std::string> overrides = {};  // key=value
  std::vector<std::string> parts = {};      // names
  std::string data_root = {};               // data.root of all parts
};

/// A path of a YAML file, or the name of one in configs/experiments/ below the working folder. Throws ExperimentError,
/// naming those that are there.
std::filesystem::path find_experiment(const std::string& name);

/// Throws ExperimentError and configs::SettingsError with file, line (or override), key, value and what was expected.
ExperimentFile load_experiments(const std::filesystem::path& file, const ExperimentChoice& choice = {});
ExperimentFile parse_experiments(const std::string& yaml, const std::string& origin,
                                 const std::filesystem::path& folder, const ExperimentChoice& choice = {});
/// The first of the experiment's requirements that is not there; empty where all are.
std::string missing_requirement(const Experiment& experiment);

}  // namespace foretime::experiments
