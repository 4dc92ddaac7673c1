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
  std::string file;
  std::vector<std::string> overrides;
  bool quiet = false, verbose = false;
  bool profile = false;
  bool no_tensorboard = false;
};

struct EvaluateArguments {
  std::string checkpoint;
  std::vector<std::string> ensemble;
  std::vector<std::string> files;
  std::vector<std::string> overrides;
  std::string rankings;
  bool json = false, force = false;
};

struct ExportArguments {
  QueueOptions queue;
  std::string run, out, format = "auto", licence;
  bool force = false;
};

/// The default learning rate of a fine-tuning, divided by that of the training (docs/how-to/finetuning.md).
inline constexpr double kFinetuneRate = 0.3;

struct FinetuneArguments {
  std::string model, out, dags, member;
  std::optional<std::string> licence;
  std::vector<std::string> records, replay, confine, targets;
  int64_t steps = 60, threads = 0;
  std::optional<double> learning_rate;
  std::optional<uint64_t> seed;
  double holdout = 0.2, tolerance = 1.0;
  bool take_worse = false, force = false, json = false;
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
