#include "worker/run/training_run.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/logger/logger.h"
#include "base/message.h"
#include "base/numbers.h"
#include "base/table.h"
#include "base/terminal.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/run_directory.h"
#include "worker/profile/profiler.h"
#include "worker/run/launch.h"
#include "worker/run/tensorboard_log.h"

namespace foretime::worker {
namespace {

/// trace.json and profile.txt in the run directory, and the latter on stdout. Every rank calls it.
void write_profile(const Profiler& profiler, const configs::Settings& settings, comm::Communicator& comm) {
  const auto ranks = gather_profiles(profiler, comm);
  comm::run_together(comm, [&] {
    if (comm.rank() != 0) return;
    const std::filesystem::path folder = settings.run.directory;
    const auto rows = profile_rows(ranks);
    write_file_atomically(folder / "trace.json", chrome_trace(ranks));
    write_file_atomically(folder / "profile.txt", format_table(rows, 0));
    show(stdout, fmt::format("where the time of {} went, {} rank{}\n{}\n", word_of(settings.model.type), comm.size(),
                             comm.size() == 1 ? "" : "s", format_table(rows, output_width())));
  });
}

/// Returns the resources of the attempts that this run continues. Must be called before the run directory is set up
/// again.
coordinator::RunResources earlier_attempts(const configs::Settings& settings) {
  const std::filesystem::path folder = settings.run.directory;
  const bool continues = settings.checkpoint.resume == "auto" && !settings.run.overwrite &&
                         !coordinator::CheckpointStore(folder / "checkpoints").steps().empty();
  return continues ? coordinator::read_run_resources(folder).value_or(coordinator::RunResources{})
                   : coordinator::RunResources{};
}

/// resources.json in the run directory. Every rank calls it.
void write_resources(const coordinator::ResourceMeter& meter, const coordinator::RunResources& earlier,
                     const configs::Settings& settings, comm::Communicator& comm) {
  coordinator::RunResources now;
  now.seconds = earlier.seconds + meter.seconds();
  for (const auto& peak : comm.all_gather_bytes(fmt::format("{}", meter.peak_memory())))
    now.all_memory += parse_number<double>(peak).value();
  now.memory = std::max(earlier.memory, meter.peak_memory());
  now.all_memory = std::max(earlier.all_memory, now.all_memory);
  comm::run_together(comm, [&] {
    if (comm.rank() == 0) coordinator::write_run_resources(settings.run.directory, now);
  });
}

}  // namespace

std::optional<int64_t> train_model(const configs::Settings& settings, comm::Communicator& comm,
                                   const TrainOptions& options, std::vector<NamedEvaluation>& rows) {
  const bool root = comm.rank() == 0;
  const coordinator::ResourceMeter meter;
  coordinator::RunResources earlier;
  comm::run_together(comm, [&] {
    if (root)
      coordinator::require_run_or_empty_folder(settings.run.directory);  // must precede the log, which is written there
  });
  if (root) {
    files().create_folders(settings.run.directory);
    earlier = earlier_attempts(settings);
  }
  // Rank 0 says everything, the others only warn.
  const auto log =
      make_logger(root ? std::filesystem::path(settings.run.directory) / "log.txt" : std::filesystem::path(),
                  root ? spdlog::level::info : spdlog::level::warn);
  ProgressDisplay display(word_of(settings.model.type), settings.trainer.metric);
  Profiler profiler(events_per_rank(comm.size()));
  TrainerOptions training{.listeners = {&display}, .metric_required = options.metric_required};
  TensorBoardLog tensorboard(settings);
  if (root && options.tensorboard) training.listeners.push_back(&tensorboard);
  if (options.listener != nullptr) training.listeners.push_back(options.listener);
  if (options.profile) training.profiler = &profiler;
  try {
    Trainer trainer(settings, comm, *log, training);
    trainer.set_up();
    auto outcome = trainer.run();
    display.finish();
    if (options.profile) write_profile(profiler, settings, comm);
    write_resources(meter, earlier, settings, comm);
    if (outcome.preempted) {
      log->info("stopped by {} at step {}: checkpoint written; the same command continues", outcome.stopped_by,
                outcome.steps);
      return std::nullopt;
    }
    rows.emplace_back(word_of(settings.model.type), std::move(outcome.final_evaluation));
    if (options.evaluate_constant) rows.emplace_back("mean", trainer.evaluate_constant());
    log_to_file(*log, fmt::format("finished at step {}", outcome.steps));
    return outcome.steps;
  } catch (const std::exception& error) {
    log_to_file(*log, "failed: " + text_of_error(error));  // whoever prints it is further up
    throw;
  }
}

}  // namespace foretime::worker
