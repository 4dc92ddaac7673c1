#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/foreign_file.h"
#include "base/message.h"
#include "base/output_target.h"
#include "cli/command_line/model_commands.h"
#include "cli/jobs/queue_access.h"
#include "configs/load.h"
#include "coordinator/best_checkpoint.h"
#include "coordinator/checkpoint_store.h"
#include "jobs/agent/allowed_roots.h"
#include "jobs/artifacts/transfer.h"
#include "jobs/error.h"
#include "worker/export/bundles.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kManifest = "manifest.json";
constexpr uint64_t kMostNoteBytes = 64 << 20;

/// The run directory that holds a checkpoint, or the checkpoint itself where it lies alone.
fs::path run_of(const fs::path& checkpoint) {
  const auto folder = checkpoint.parent_path();
  return folder.filename() == "checkpoints" ? folder.parent_path() : checkpoint;
}

/// The run of a job's published checkpoint; of a fine-tuning, its bundle. Where it does not lie below --runs, as
/// another host has stored it, in `scratch`.
fs::path run_of_job(const ExportArguments& options, std::optional<ScratchFolder>& scratch) {
  if (options.run.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw configs::SettingsError("{}: not found, expected a run directory, a checkpoint, a bundle or the id of a job",
                                 options.run);
  QueueAccess access(options.queue, Start::to_read);
  const auto id = access.reader().resolve_job(options.run);
  const auto job = access.reader().job(id);
  if (!job || job->checkpoint.empty())
    throw jobs::JobRefused(
        fmt::format("job {}: has no checkpoint ({})", id, job ? to_string(job->state) : "forgotten"));
  const auto root = fs::weakly_canonical(options.queue.runs);
  const auto here = jobs::allowed_path("checkpoint of job " + id, job->checkpoint, root, {root});
  if (files().exists(here)) return run_of(here);
  auto fetched = jobs::fetch_artifact(*access.make_stores(), id, access.reader().artifacts(id), jobs::Want::result,
                                      scratch.emplace(fs::temp_directory_path() / "foretime-").path() / "stored");
  for (const auto& note : fetched.notes) print_message("warning: {}\n", note);
  if (fetched.found()) return fetched.path;
  throw jobs::JobRefused(
      "job {}: found its checkpoint neither in {} (--runs is the run folder of its agent) nor in an artifact store: "
      "agents store checkpoints with --artifacts",
      id, here.string());
}

/// Returns why the folder `out` must not be replaced; "" if it is empty or is only an export: a checkpoint with the
/// settings of its run, which a run's own checkpoints lack. Throws StorageError.
std::string obstacle(const fs::path& out) {
  if (!files().is_folder(out)) return "it is no folder";
  if (files().is_empty(out)) return "";
  std::set<std::string> ours = {kManifest, "config.yaml", "data.json"};
  try {
    for (const auto& [name, bytes] : coordinator::read_checkpoint(out).files) ours.insert(name);
  } catch (const StorageError&) {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  }
  if (!files().exists(out / "config.yaml")) return "it has no config.yaml, as a checkpoint within a run";
  for (const auto& file : files().list(out))
    if (!ours.contains(file.filename().string())) return "it also holds " + file.filename().string();
  return "";
}

/// Throws OutputRefused unless the folder `out` may be replaced by an export of `run`.
void expect_replaceable_folder(const fs::path& out, const fs::path& run) {
  if (!files().exists(out)) return;
  std::error_code missing;
  const auto why = fs::equivalent(out, run, missing) ? "it is what is exported" : obstacle(out);
  if (!why.empty())
    throw OutputRefused("{}: exists and is not just an exported checkpoint ({}); give another name", out.string(), why);
}

/// Returns the format of `out`: from --format, or else from its name. Refuses a name that contradicts --format, and
/// unknown formats.
std::string format_of(const ExportArguments& options) {
  const auto extension = fs::path(options.out).extension().string();
  const std::string named = extension == ".foretime" ? "bundle" : extension == ".pt" ? "torchscript" : "checkpoint";
  const bool known = extension.empty() || named != "checkpoint";
  if (options.format == "auto" && !known)
    throw configs::SettingsError(
        "{}: found the extension {}, expected NAME.foretime (a bundle), NAME.pt (TorchScript), "
        "or a name without extension (a folder with a checkpoint; --format checkpoint for one of this name)",
        options.out, extension);
  if (options.format != "auto" && options.format != named && !extension.empty() && known)
    throw configs::SettingsError("{}: --format {} does not write {} files; give another name, or leave --format out",
                                 options.out, options.format, extension);
  return options.format == "auto" ? named : options.format;
}

/// A single file: a bundle, or TorchScript.
void export_file(const ExportArguments& options, const inference::Bundle& bundle, const std::string& format,
                 const std::string& source) {
  const fs::path out = options.out;
  if (format == "bundle") {
    inference::write_bundle(out, bundle);
    inference::read_bundle(out);
  } else {
    worker::write_torchscript(out, bundle);
  }
  fmt::print("{}: {}, {} bytes\n", out.string(), source, fs::file_size(out));
}

void export_checkpoint(const ExportArguments& options, const fs::path& run, const std::string& format) {
  const auto checkpoint = coordinator::read_best_only(run);
  const auto metrics = worker::metrics_at(run_of(fs::absolute(checkpoint.folder).lexically_normal()), checkpoint.step);
  const auto bundle = worker::make_bundle(worker::load_trained_model(checkpoint), {options.licence, metrics});
  export_file(options, bundle, format, fmt::format("step {} of {}", checkpoint.step, checkpoint.folder.string()));
}

/// Exports a bundle that a fine-tuning has made.
void export_bundle(const ExportArguments& options, const fs::path& file, const std::string& format) {
  auto bundle = inference::read_bundle(file);
  if (format == "checkpoint")
    throw configs::SettingsError(
        "{}: found a bundle, from which no checkpoint folder can be written; give OUT.foretime or OUT.pt",
        file.string());
  if (!options.licence.empty()) bundle.manifest["licence"] = options.licence;
  export_file(options, bundle, format, "from " + file.string());
}

}  // namespace

void export_model(const ExportArguments& options) {
  const auto format = format_of(options);
  if (format == "checkpoint" && !options.licence.empty())
    throw configs::SettingsError(
        "--licence {}: a checkpoint folder records no licence; export a bundle, {}.foretime, or leave it out",
        options.licence, options.out);
  if (format != "checkpoint")
    expect_replaceable("", options.out, format == "bundle" ? FileKind::bundle : FileKind::torchscript, options.force,
                       {options.run});
  std::optional<ScratchFolder> scratch;
  const auto run = files().exists(options.run) ? fs::path(options.run) : run_of_job(options, scratch);
  if (is_file(run)) return export_bundle(options, run, format);
  if (format != "checkpoint") return export_checkpoint(options, run, format);
  auto out = fs::absolute(options.out).lexically_normal();
  if (!out.has_filename()) out = out.parent_path();
  expect_replaceable_folder(out, run);
  auto checkpoint = coordinator::read_best_only(run);  // sizes and checksums are checked
  for (const char* name : {"config.yaml", "data.json"}) {
    for (const auto& folder : {checkpoint.folder, run_of(fs::absolute(checkpoint.folder).lexically_normal())}) {
      auto bytes = read_foreign(folder, name, kMostNoteBytes);
      if (!bytes) continue;
      checkpoint.files[name] = *std::move(bytes);
      break;
    }
  }
  coordinator::write_folder(out, checkpoint.files,
                            read_foreign(checkpoint.folder, kManifest, kMostNoteBytes).value_or(""));
  coordinator::read_checkpoint(out);
  fmt::print("{}: step {} of {}\n", out.string(), checkpoint.step, checkpoint.folder.string());
}

}  // namespace foretime::cli
