#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/duration.h"
#include "base/message.h"
#include "base/terminal.h"
#include "cli/command_line/model_commands.h"
#include "cli/job_channel.h"
#include "cli/launch_view.h"
#include "comm/communicator.h"
#include "configs/load.h"
#include "configs/metrics.h"
#include "coordinator/run_lock.h"
#include "worker/run/launch.h"
#include "worker/run/training_run.h"

namespace foretime::cli {
namespace {

/// Returns the settings of a baseline: the same training with another model, in a separate folder.
configs::Settings baseline_settings(configs::Settings settings, configs::ModelType type) {
  settings.model.type = type;
  settings.run.directory = (std::filesystem::path(settings.run.directory) / "baselines" / word_of(type)).string();
  settings.trainer.baselines.clear();
  if (settings.checkpoint.resume != "never") settings.checkpoint.resume = "auto";
  return settings;
}

/// Returns a summary of a training in a few lines.
std::string summary_of(const configs::Settings& settings, int ranks) {
  const auto& [data, model, trainer] = std::tie(settings.data, settings.model, settings.trainer);
  const auto files = [](const std::vector<std::string>& names) {
    if (names.empty()) return std::string("none");
    return names.front() + (names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "");
  };
  std::string baselines;
  for (const auto baseline : trainer.baselines) baselines += (baselines.empty() ? "" : ", ") + word_of(baseline);
  return fmt::format(
      "data      {}, {}\n"
      "  train   {}; held out {:g} % of their candidates\n"
      "  test    {}; validation {}\n"
      "model     {}: {} layers, {} wide{}\n"
      "loss      {}\n"
      "steps     {}, each of {} groups with {} candidates; evaluated {}\n"
      "metric    {}\n"
      "ranks     {}, on {}\n"
      "run       {} (all settings: config.yaml there, or --verbose)\n",
      data.root, word_of(data.format), files(data.train), 100 * data.holdout, files(data.test), files(data.valid),
      word_of(model.type), model.layers, model.hidden, baselines.empty() ? "" : "; baselines: " + baselines,
      word_of(settings.loss.type), trainer.steps, settings.sampler.groups_per_batch,
      settings.sampler.candidates_per_group == 0 ? "all" : fmt::format("{}", settings.sampler.candidates_per_group),
      trainer.eval_every == 0 ? "at the end" : fmt::format("every {}", trainer.eval_every), trainer.metric, ranks,
      word_of(trainer.device), settings.run.directory);
}

/// Warns if one process runs in the script of a Slurm job, or in a shell of salloc, although the job has several tasks.
void warn_of_idle_tasks() {
  const auto slurm = view_of_slurm([](const char* name) -> const char* { return std::getenv(name); });
  if (!slurm.job.empty() && slurm.step.empty() && slurm.tasks > 1)
    print_message(
        "warning: Slurm job {} has {} tasks, and this training uses one of them; "
        "all train with srun --mpi=pmix foretime train …\n",
        slurm.job, slurm.tasks);
}

}  // namespace

void train(const TrainArguments& options, int& exit_code) {
  const auto settings = checked_settings(options);
  if (settings.trainer.deterministic) worker::make_deterministic();
  worker::with_communicator(
      settings.comm, {settings.trainer.device, settings.trainer.threads}, [&](comm::Communicator& comm) {
        const bool root = comm.rank() == 0;
        std::optional<coordinator::RunLock> lock;
        comm::run_together(comm, [&] {
          coordinator::LockTimes times;  // the others wait meanwhile, and not for ever
          if (comm.size() > 1) times.patience = milliseconds_of(settings.comm.timeout_seconds / 2);
          if (root) lock.emplace(settings.run.directory, times);
        });
        if (const auto warning = configs::metric_warning(settings); root && !warning.empty() && !runs_as_job())
          print_message("warning: {}\n", warning);
        if (comm.size() == 1 && !runs_as_job()) warn_of_idle_tasks();
        if (root && options.verbose && !options.quiet) show(stdout, configs::to_yaml(settings) + "\n");
        if (root && !options.verbose && !options.quiet)
          show(stdout, folded(summary_of(settings, comm.size()), output_width()) + "\n");
        std::vector<configs::ModelType> types = {settings.model.type};
        for (const auto baseline : settings.trainer.baselines)
          if (const auto type = configs::choice_named<configs::ModelType>(word_of(baseline))) types.push_back(*type);
        const auto& baselines = settings.trainer.baselines;
        const bool mean = std::ranges::find(baselines, configs::Baseline::mean) != baselines.end();
        std::vector<worker::NamedEvaluation> rows;
        JobChannel channel(comm);
        int64_t steps = 0;
        const auto models = std::ssize(types);
        for (size_t i = 0; i < types.size(); ++i) {
          const auto own = i == 0 ? settings : baseline_settings(settings, types[i]);
          const int64_t index = i;
          const auto listener = channel.listener(index, models);
          const auto done = worker::train_model(own, comm,
                                                {.listener = listener.get(),
                                                 .metric_required = channel.metric_required(index),
                                                 .profile = options.profile,
                                                 .tensorboard = !options.no_tensorboard,
                                                 .evaluate_constant = mean && i + 1 == types.size()},
                                                rows);
          if (!done) {
            exit_code = kPreempted;
            return;
          }
          if (i == 0) steps = *done;
        }
        if (!root) return;
        channel.send_result(steps, rows.front().second.metrics);
        const auto tables = [&](size_t width) {
          return worker::comparison_table(rows, width) + "\n" + worker::group_table(rows.front().second, width);
        };
        write_file_atomically(std::filesystem::path(settings.run.directory) / "comparison.txt", tables(0));
        show(stdout, fmt::format("{}\nrun directory: {}\n", tables(output_width()), settings.run.directory));
      });
}

}  // namespace foretime::cli
