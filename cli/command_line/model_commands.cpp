#include "cli/command_line/model_commands.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/parsing/options.h"
#include "configs/load.h"
#include "configs/metrics.h"

namespace foretime::cli {

bool runs_as_job() { return std::getenv("FORETIME_PROGRESS") != nullptr; }

configs::Settings checked_settings(const TrainArguments& arguments) {
  auto settings = configs::load_settings(arguments.file, arguments.overrides);
  if (const auto conflict = configs::find_metric_conflict(settings, runs_as_job()); !conflict.empty())
    throw configs::SettingsError("{}: {}", arguments.file, conflict);
  return settings;
}

void add_train_command(CLI::App& app, std::function<void(const TrainArguments&)> run) {
  auto options = std::make_shared<TrainArguments>();
  auto* command = app.add_subcommand("train", "Train a model, alone or under mpirun; the same command continues a run");
  needed_option(*command, "settings", options->file, "YAML settings (see foretime config --reference)");
  command->add_option("overrides", options->overrides, "key=value, e.g. optimizer.learning_rate=3e-4");
  command->add_flag("--quiet", options->quiet, "do not say at the beginning what is trained");
  command->add_flag("--verbose", options->verbose, "print all resolved settings, as config.yaml in the run directory");
  command->add_flag(
      "--profile", options->profile,
      "write trace.json (chrome://tracing, Perfetto) of all ranks to the run directory, and print where the time went");
  command->add_flag("--no-tensorboard", options->no_tensorboard,
                    "write no event files for TensorBoard (events.out.tfevents.*) to the run directory");
  command->callback([options, run = std::move(run)] { run(*options); });
}

void add_evaluate_command(CLI::App& app, std::function<void(const EvaluateArguments&)> run) {
  auto options = std::make_shared<EvaluateArguments>();
  auto* command = app.add_subcommand("evaluate", "Measure a checkpoint on its own evaluation sets, or on named files");
  needed_option(*command, "checkpoint", options->checkpoint,
                "a run directory (its best checkpoint) or one checkpoint folder");
  command->add_option("files", options->files, "files, folders or globs; without any, the sets of the run's settings");
  command
      ->add_option("--ensemble", options->ensemble,
                   "another checkpoint whose model is measured, "
                   "alone and together with the first one, on the first one's sets; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--set", options->overrides, "key=value, e.g. data.max_eval_candidates=0")->take_all();
  command->add_option("--rankings", options->rankings, "write all rankings to this CSV file");
  add_force_flag(*command, options->force);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, run = std::move(run)] { run(*options); });
}

void add_export_command(CLI::App& app, std::function<void(const ExportArguments&)> run) {
  auto options = std::make_shared<ExportArguments>();
  auto* command = app.add_subcommand(
      "export", "Hand on a run's best model: as a bundle for tuners, as TorchScript, or as a checkpoint");
  needed_option(
      *command, "run", options->run,
      "a run directory (its best checkpoint), one checkpoint folder, a bundle, or the id of a job of the queue", "RUN");
  needed_option(*command, "out", options->out,
                "what to write: model.foretime, a bundle for libforetime, tuners and foretime rank; model.pt, "
                "TorchScript; without an extension a folder that foretime evaluate and rank take",
                "OUT");
  shown_option(*command, "--format", options->format, "what to write, where the name does not say",
               CLI::IsMember({"auto", "bundle", "torchscript", "checkpoint"}));
  command->add_option("--licence", options->licence,
                      "bundle, TorchScript: under what terms others may use the weights, noted in it");
  command->add_flag("--force", options->force,
                    "replace a file of another kind, or the bundle that is exported; never a folder");
  add_queue_options(*command, options->queue);
  command->footer(
      "Examples:\n"
      "  foretime export runs/quickstart quickstart.foretime --licence Apache-2.0\n"
      "  foretime export runs/quickstart quickstart.pt\n"
      "  foretime export runs/quickstart best\n"
      "  foretime export 3fa9 best              the job whose id begins so");
  command->callback([options, run = std::move(run)] { run(*options); });
}

void add_finetune_command(CLI::App& app, std::function<void(const FinetuneArguments&)> run) {
  auto options = std::make_shared<FinetuneArguments>();
  auto* command = app.add_subcommand("finetune", "Go on training a bundle's model on new measurements, in seconds");
  needed_option(*command, "model", options->model, "the bundle to tune", "MODEL.foretime");
  needed_option(*command, "records", options->records,
                "new measurements: auto_scheduler records (JSON lines, plain or gzip), save_json text with run times, "
                "or .npz files and packed collections of what the model scores",
                "RECORDS");
  needed_option(*command, "-o,--output", options->out, "the new bundle", "NEW.foretime");
  add_dags_option(*command, options->dags, "compute DAGs of the records' workloads (docs/explanations/schedules.md)");
  typed_option(*command, "--targets", options->targets,
               "files of `foretime target measure`: machines that records name by -model= and the bundle does not know",
               "MACHINE");
  typed_option(*command, "--member", options->member,
               "which text of each record of save_json text, where it has several", "NAME");
  typed_option(*command, "--replay", options->replay, "data that the model has learned from before, against forgetting",
               "OLD");
  shown_option(*command, "--steps", options->steps, "optimiser steps", Least::above_zero);
  checked_option(*command, "--learning-rate", options->learning_rate,
                 fmt::format("the largest one; {} of that of the training if left out", kFinetuneRate),
                 Least::above_zero, "RATE");
  shown_option(*command, "--holdout", options->holdout,
               "part of the new candidates that is ranked before and after and not learned from; 0: no check",
               number_range(0.0, 0.99));
  shown_option(*command, "--tolerance", options->tolerance,
               "how much worse the tuned weights may order the held-out candidates, in standard errors", Least::zero);
  command->add_option("--seed", options->seed,
                      "of the held-out candidates and the batches; that of the training if left out");
  command->add_option("--licence", options->licence,
                      "under what terms others may use the new weights; as the bundle's if left out");
  command->add_flag("--take-worse", options->take_worse,
                    "take the tuned weights however they order the held-out candidates");
  add_force_flag(*command, options->force);
  shown_option(*command, "--threads", options->threads, "0: all cores", Least::zero);
  typed_option(*command, "--confine", options->confine,
               "folders that hold every file that is read (an agent's data roots)", "FOLDER")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Exit code 6: the tuned weights ordered the held-out candidates worse, and the new bundle has its parent's.\n"
      "Examples:\n"
      "  foretime finetune model.foretime round1.json --dags dags.jsonl -o tuned.foretime\n"
      "  foretime finetune model.foretime round*.json --dags dags.jsonl --replay old.foretime -o tuned.foretime");
  command->callback([options, run = std::move(run)] { run(*options); });
}

void add_doctor_command(CLI::App& app, std::function<void(const QueueOptions&)> run) {
  auto* command = app.add_subcommand(
      "doctor", "What was found on this machine and of this launch, with advice; also under srun and mpirun");
  const auto queue = std::make_shared<QueueOptions>();
  add_queue_options(*command, *queue);
  command->callback([queue, run = std::move(run)] { run(*queue); });
}

}  // namespace foretime::cli
