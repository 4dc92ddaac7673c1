#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/queue_access.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "jobs/confine.h"
#include "jobs/error.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kManifest = "manifest.json";

struct Options {
  QueueOptions queue;
  std::string run, out;
  bool force = false;
};

/// The run directory that holds a checkpoint, or the checkpoint itself where it lies alone.
fs::path run_of(const fs::path& checkpoint) {
  const auto folder = checkpoint.parent_path();
  return folder.filename() == "checkpoints" ? folder.parent_path() : checkpoint;
}

/// The run of a job's published checkpoint.
fs::path run_of_job(const Options& options) {
  QueueAccess access(options.queue, Start::never);
  const auto id = access.observer().resolve_job(options.run);
  const auto job = access.observer().job(id);
  if (!job || job->checkpoint.empty())
    throw jobs::JobRefused(
        fmt::format("job {}: has no checkpoint ({})", id, job ? to_string(job->state) : "forgotten"));
  const auto root = fs::weakly_canonical(options.queue.runs);
  return run_of(jobs::confine("checkpoint of job " + id, job->checkpoint, root, {root}));
}

/// Whether `out` may be replaced: it is an export, or empty.
void check_target(const fs::path& out, bool force) {
  if (!fs::exists(out)) return;
  const bool replaceable = fs::is_directory(out) && (fs::is_empty(out) || fs::exists(out / kManifest));
  if (force && replaceable) return;
  throw configs::SettingsError(fmt::format(
      "{}: {}", out.string(),
      replaceable ? "exists already; --force replaces it" : "exists and is no exported checkpoint; name another"));
}

void run(const Options& options) {
  auto out = fs::absolute(options.out).lexically_normal();
  if (!out.has_filename()) out = out.parent_path();
  check_target(out, options.force);
  const auto run = fs::exists(options.run) ? fs::path(options.run) : run_of_job(options);
  const auto checkpoint = coordinator::read_checkpoint(run);  // sizes and checksums are checked
  auto aside = out;
  aside += ".foretime-tmp";
  fs::remove_all(aside);
  fs::create_directories(aside);
  for (const auto& [name, bytes] : checkpoint.files) coordinator::write_file_atomically(aside / name, bytes);
  for (const char* name : {"config.yaml", "data.json"}) {
    for (const auto& folder : {checkpoint.folder, run_of(fs::absolute(checkpoint.folder).lexically_normal())}) {
      if (!fs::exists(folder / name)) continue;
      coordinator::write_file_atomically(aside / name, coordinator::read_file(folder / name));
      break;
    }
  }
  coordinator::write_file_atomically(aside / kManifest, coordinator::read_file(checkpoint.folder / kManifest));
  coordinator::read_checkpoint(aside);
  fs::remove_all(out);
  fs::rename(aside, out);
  fmt::print("{}: step {} of {}\n", out.string(), checkpoint.step, checkpoint.folder.string());
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("export", "Copy a run's best checkpoint into a folder of its own");
  command
      ->add_option("run", options->run,
                   "a run directory (its best checkpoint), one checkpoint folder, or the id of a job of the queue")
      ->required()
      ->type_name("RUN");
  command->add_option("out", options->out, "folder to write; foretime evaluate and rank take it")
      ->required()
      ->type_name("OUT");
  command->add_flag("--force", options->force, "replace an earlier export");
  add_queue_options(*command, options->queue);
  command->footer(
      "Examples:\n"
      "  foretime export runs/quickstart best\n"
      "  foretime export 3fa9 best --force      the job whose id begins so");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
