#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/jobs/queue_access.h"
#include "configs/settings.h"

namespace CLI {
class App;
}

/// Declares the commands that need LibTorch or MPI. Their options are parsed without either, so that help and wrong
/// settings are answered at once; `run` of each add_… function implements the command, or executes the program that
/// does.
namespace foretime::cli {

struct TrainArguments {
  std::string file;                     // settings file (YAML)
  std::vector<std::string> overrides;   // settings in the form key=value
  bool quiet = false, verbose = false;  // quiet: print no summary of the settings; verbose: print all settings
  bool profile = false;                 // write trace.json and profile.txt
  bool no_tensorboard = false;          // write no event files for TensorBoard
};

struct EvaluateArguments {
  std::string checkpoint;              // run directory or checkpoint folder
  std::vector<std::string> ensemble;   // further checkpoints, evaluated alone and together with the first one
  std::vector<std::string> files;      // files evaluated in place of the sets of the run; empty: the sets
  std::vector<std::string> overrides;  // settings in the form key=value (--set)
  std::string rankings;                // CSV file to write with all rankings; "": none
  bool json = false, force = false;    // json: print JSON; force: `rankings` may replace a file of another kind
};

struct ExportArguments {
  QueueOptions queue;
  std::string run, out;                  // run directory, checkpoint, bundle or id of a job; file or folder to write
  std::string format = "auto", licence;  // bundle, torchscript, checkpoint, or auto: by the name `out`; "": no licence
  bool force = false;                    // true: `out` may replace a file of another kind or the bundle itself
};

/// The default learning rate of a fine-tuning, divided by that of the training (docs/how-to/finetuning.md).
inline constexpr double kFinetuneRate = 0.3;

struct FinetuneArguments {
  std::string model, out, dags, member;  // bundle to tune; bundle to write; compute DAGs; member of save_json records
  std::optional<std::string> licence;    // nullopt: that of `model`
  std::vector<std::string> records, replay;   // files of new measurements; files that the model has learned from before
  std::vector<std::string> confine, targets;  // folders that must hold all files that are read; machine files
  int64_t steps = 60, threads = 0;            // optimiser steps; threads, 0: all cores
  std::optional<double> learning_rate;        // nullopt: kFinetuneRate times that of the training
  std::optional<uint64_t> seed;               // nullopt: that of the training
  double holdout = 0.2, tolerance = 1.0;      // share of candidates held out; allowed loss of order in standard errors
  bool take_worse = false;                    // true: take the tuned weights however they order the held-out candidates
  bool force = false, json = false;           // force: `out` may replace a file of another kind; json: print JSON
};

void add_train_command(CLI::App& app, std::function<void(const TrainArguments&)> run);
void add_evaluate_command(CLI::App& app, std::function<void(const EvaluateArguments&)> run);
void add_export_command(CLI::App& app, std::function<void(const ExportArguments&)> run);
void add_finetune_command(CLI::App& app, std::function<void(const FinetuneArguments&)> run);
void add_doctor_command(CLI::App& app, std::function<void(const QueueOptions&)> run);

/// Returns whether an agent started this process (FORETIME_PROGRESS) and compares its results with other jobs'.
bool runs_as_job();
/// Reads the settings of a training. Throws SettingsError if they are invalid or their metric cannot be computed.
configs::Settings checked_settings(const TrainArguments& arguments);

/// Runs `foretime train`. Sets `exit_code` to kPreempted if the training was pre-empted.
void train(const TrainArguments& arguments, int& exit_code);
void evaluate(const EvaluateArguments& arguments);
void export_model(const ExportArguments& arguments);
/// Runs `foretime finetune`. Sets `exit_code` to kParentKept if the new bundle has its parent's weights.
void finetune(const FinetuneArguments& arguments, int& exit_code);
/// Prints findings about this machine, launch and queue. Throws ReportedError if a training or the queue would fail.
void examine_machine(const QueueOptions& queue);

}  // namespace foretime::cli
