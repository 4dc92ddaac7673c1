#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "jobs/sweep_settings.h"

/// An experiment: models trained on growing shares of the same data with several seeds, measured on the same test
/// groups, beside baselines. docs/experiments.md has the grammar.
namespace foretime::cli {

enum class EntryKind {
  model,    // trained as `foretime train` does
  mean,     // predicts the mean run time of the training candidates
  random,   // a random order
  xgboost,  // boosted trees over features that a file holds (models/baseline/)
};
std::string to_string(EntryKind kind);

/// How an entry of kind xgboost learns.
struct XgboostSettings {
  std::vector<std::string> features;  // .npz files, relative to data.root; a program's rows are found by its id
  std::string records, dags;          // instead: tuning records whose 0-based lines name the programs, and stage tables
  bool statements = false;            // rows of each statement, TVM's scheme; else one row a program (AutoTVM's loops)
  std::string target = "flop";        // loops: logarithm of time | of time per operation (flop)
  std::string preset = "pairs";       // statements: models::throughput_presets
  int64_t rounds = 0;                 // 0: as the baseline command has them
};

/// One of the models that are compared.
struct ExperimentEntry {
  std::string label;
  EntryKind kind = EntryKind::model;
  std::vector<jobs::SettingOverride> set = {};  // kind model: over the experiment's settings
  XgboostSettings xgboost = {};

  /// The label as a file name.
  std::string slug() const;
  bool is_learned() const { return kind == EntryKind::model || kind == EntryKind::xgboost; }
};

/// Known values to compare with, of a publication or of another program.
struct Reference {
  std::string label;
  std::map<std::string, double> metrics;  // as MetricInfo shows them: times in milliseconds
};

/// Groups that are shown as one: those of one network, for example.
struct GroupClass {
  std::string label;
  std::vector<std::string> patterns;  // of group names, with * ? and {a,b}
};

enum class FigureKind { curves, scatter, groups, metrics };

struct FigureSpec {
  std::string file;  // name.svg in the output folder
  FigureKind kind = FigureKind::curves;
  std::string title;                 // empty: the experiment's
  std::vector<std::string> metrics;  // curves, groups: one
  std::vector<std::string> entries;  // labels; empty: curves, scatter and groups all that learn, metrics likewise
  bool log_x = false, log_y = false;
};

struct Experiment {
  std::string origin, name, variant, title, description;
  configs::Settings base;
  std::vector<ExperimentEntry> entries;
  std::vector<jobs::SettingOverride> last;  // over the entries' own: the variant's, then the command line's
  std::vector<double> fractions;            // of the training candidates, ascending; the last one is "all"
  std::vector<uint64_t> seeds;
  std::string set;                   // test, valid or holdout: what is measured
  std::vector<std::string> metrics;  // in the order of the tables; the first one is the experiment's own
  std::string remeasured;            // .npz with id and runtime, relative to data.root; empty: none
  std::vector<Reference> references;
  std::vector<GroupClass> classes;
  std::vector<FigureSpec> figures;
};

/// What the command line chooses; what is empty is as in the file.
struct ExperimentChoice {
  std::string variant = {};
  std::vector<std::string> entries = {};  // labels, or their file names
  std::vector<double> fractions = {};
  int64_t seeds = 0;                        // the first so many from trainer.seed on
  std::vector<std::string> overrides = {};  // key=value
};

/// A path of a YAML file, or the name of one in configs/experiments/ below the working folder. Throws jobs::SweepError,
/// naming those that are there.
std::filesystem::path find_experiment(const std::string& name);

/// Throws jobs::SweepError and configs::SettingsError with file, line (or override), key, value and what was expected.
Experiment load_experiment(const std::filesystem::path& file, const ExperimentChoice& choice = {});
Experiment parse_experiment(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                            const ExperimentChoice& choice = {});

}  // namespace foretime::cli
