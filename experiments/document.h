#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "configs/settings.h"
#include "jobs/sweep/setting_overrides.h"

/// Describes experiments: models trained on growing shares of the same data with several seeds, evaluated on the same
/// test groups, next to baselines. docs/reference/experiment-files.md has the grammar.
namespace foretime::experiments {

/// Reports an experiment that contradicts itself or names something that does not exist. The message names the file,
/// the key, the value found and the values allowed.
struct ExperimentError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

/// Names what makes the predictions of an entry. model: a model trained as by `foretime train`; mean: the mean run time
/// of the training candidates; random: a random order; ceiling: the mean run time of each configuration over all of its
/// measurements, the best that noise allows; xgboost: boosted trees on features or layouts (models/baselines/).
FORETIME_CHOICE(EntryKind, model, mean, random, ceiling, xgboost);

/// Names the rows that boosted trees learn from. loops: one row for each program (AutoTVM's features of loops);
/// statements: one row for each statement of a program, as in TVM; layout_codes: one row for each candidate of a layout
/// group, with the layout of each configurable node, and separate trees for each graph.
FORETIME_CHOICE(BoostedRows, loops, statements, layout_codes);

/// Sets how an entry of kind xgboost learns.
struct XgboostSettings {
  std::vector<std::string> features;  // .npz files with rows by program id, relative to data.root
  std::string records;  // file of tuning records in place of `features`; ids of programs are its lines, from 0
  std::string dags;     // file of compute DAGs of the records' workloads; "" without records
  BoostedRows rows = BoostedRows::loops;
  std::string target = "flop";   // rows loops: learns log(run time) (time) or log(run time / operations) (flop)
  std::string preset = "pairs";  // rows statements: name of a models::throughput_preset
  int64_t rounds = 0;            // boosting rounds; 0: the default for the kind of rows
};

/// Describes one of the models that an experiment compares.
struct ExperimentEntry {
  std::string label;
  EntryKind kind = EntryKind::model;
  std::vector<jobs::SettingOverride> set = {};  // kind model: applied to the experiment's settings
  XgboostSettings xgboost = {};
  std::optional<configs::Settings> own = {};  // settings of the entry's settings file, with the experiment's overrides

  /// Returns the label as a file name: lower-case letters and digits, with one - for the other characters between two
  /// of them; "entry" if the label has neither letters nor digits.
  std::string slug() const;
  bool is_learned() const { return kind == EntryKind::model || kind == EntryKind::xgboost; }
};

/// Holds known values for comparison, from a publication or another program.
struct Reference {
  std::string label;
  std::map<std::string, double> values;  // key: name of a metric, or title of a column; times in milliseconds
};

/// Names groups that are shown as one, for example those of one network.
struct GroupClass {
  std::string label;
  std::vector<std::string> patterns;  // patterns of group names, with * ? and {a,b}
};

/// Describes a column of the main table: a metric over some of the evaluated groups.
struct Column {
  std::string title;                // "": the column has the title of the metric
  std::string metric;               // name of the metric
  std::string set;                  // set of the groups: test, valid or holdout; "": groups of all evaluated sets
  std::vector<std::string> groups;  // patterns of group names; empty: all groups

  /// Returns whether the column omits some groups.
  bool is_filtered() const { return !set.empty() || !groups.empty(); }
};

/// Sets folds. With the groups sorted by name, fold f (0, 1, …) tests the groups i with i modulo `count` = f, and
/// trains on the other groups.
struct FoldRule {
  int64_t count = 0;                // number of folds; 0: no folds
  std::vector<std::string> groups;  // files, folders and patterns of all groups, like data.train
};

/// Holds an experiment: the content of a file, or of one part of a file.
struct Experiment {
  std::string origin, name;        // file in messages; name of the experiment
  std::string part, variant;       // chosen part and variant; "" in a file without parts, without a variant
  std::string title, description;  // texts for the summary
  configs::Settings base;          // settings of all entries without a settings file
  std::vector<ExperimentEntry> entries;
  // Overrides of the variant, then of the command line, applied after each entry's settings.
  std::vector<jobs::SettingOverride> last;
  std::vector<double> fractions;  // shares of the training candidates, 0 to 1, ascending
  std::vector<uint64_t> seeds;
  FoldRule folds;
  std::vector<std::string> sets;          // evaluated sets: test, valid or holdout
  std::vector<std::string> metrics;       // names, the experiment's main metric first
  std::vector<Column> columns;            // columns of the main table; default: each metric over all groups
  bool has_columns = false;               // the file has the key columns
  std::string remeasured;                 // .npz of second measurements, relative to data.root; "": none
  std::vector<std::string> requirements;  // paths relative to data.root; the part is skipped if one is missing
  std::string submission;                 // TpuGraphs collection of all lines for the contest, or by_name; "": none
  std::vector<Reference> references;
  std::vector<GroupClass> classes;

  /// Returns "name", or "name/part" for a part.
  std::string full_name() const { return part.empty() ? name : name + "/" + part; }
};

/// Holds the content of an experiment's file.
struct ExperimentFile {
  std::string origin, name, variant, title, description;  // origin: file in messages; variant: "" without one
  bool has_parts = false;                                 // the file has the key parts
  std::vector<Experiment> parts;                          // parts of the file; one if it has none
};

/// Holds the choices of the command line. Empty members, and 0 seeds, choose what the file says.
struct ExperimentChoice {
  std::string variant = {};
  std::vector<std::string> entries = {};  // labels or slugs (ExperimentEntry::slug)
  std::vector<double> fractions = {};
  int64_t seeds = 0;                        // number of seeds, counted from trainer.seed
  std::vector<std::string> overrides = {};  // settings in the form key=value
  std::vector<std::string> parts = {};      // names of parts
  std::string data_root = {};               // replaces data.root of all parts
};

/// Returns the path of an experiment's file: `name` if such a file exists, else configs/experiments/NAME.yaml in the
/// working folder. Throws ExperimentError, which lists the names there, if neither exists.
std::filesystem::path find_experiment(const std::string& name);

/// Reads an experiment's file. Parts without a chosen entry are omitted. Throws ExperimentError and
/// configs::SettingsError naming file, line (or override) and key; StorageError if the storage fails.
ExperimentFile load_experiments(const std::filesystem::path& file, const ExperimentChoice& choice = {});
/// Parses the text of an experiment's file, as load_experiments does. Messages name the file `origin`; settings files
/// are looked up in `folder`.
ExperimentFile parse_experiments(const std::string& yaml, const std::string& origin,
                                 const std::filesystem::path& folder, const ExperimentChoice& choice = {});
/// Returns the path of the first of experiment.requirements that does not exist below data.root; "" if all exist.
std::string missing_requirement(const Experiment& experiment);

}  // namespace foretime::experiments
