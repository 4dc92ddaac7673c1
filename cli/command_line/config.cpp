#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "base/files.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "configs/metrics.h"
#include "jobs/error.h"
#include "jobs/sweep/program_trial.h"
#include "jobs/sweep/sweep.h"

namespace foretime::cli {
namespace {

struct Arguments {
  bool reference = false;
  std::string file;  // or the first digits of a job's id
  std::vector<std::string> overrides;
  QueueOptions queue;
};

/// Returns whether `text` looks like the beginning of a job's id and no file has this name.
bool names_job(const std::string& text) {
  constexpr size_t kLeastDigits = 4;
  const bool digits = text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  return text.size() >= kLeastDigits && digits && !files().exists(text);
}

/// Returns the settings that a job of the queue runs with, with the overrides laid over those of a training.
std::string settings_of_job(const Arguments& arguments) {
  QueueAccess access(arguments.queue, Start::to_read);
  auto& reader = access.reader();
  const auto id = reader.resolve_job(arguments.file);
  const auto job = reader.job(id);
  if (!job) throw jobs::JobUnknown("job {}: unknown (finished jobs are forgotten after a while)", id);
  if (!job->unreadable.empty()) throw jobs::DamagedRecord(job->unreadable);
  const auto settings = [&] {
    try {
      return jobs::resolved_settings(job->spec);
    } catch (const Error& error) {
      throw jobs::DamagedRecord("job {}: its settings are damaged: {}", id, error.what());
    }
  }();
  if (arguments.overrides.empty()) return settings;
  if (job->spec.kind != jobs::JobKind::train || jobs::runs_program(job->spec.settings))
    throw configs::SettingsError("{}: found an override, expected none: job {} is not a training by foretime itself",
                                 arguments.overrides.front(), id);
  return configs::to_yaml(configs::parse_settings(settings, "settings of job " + id, arguments.overrides));
}

void run(const Arguments& arguments) {
  if (arguments.reference) {
    fmt::print("{}", configs::reference_page());
  } else if (arguments.file.empty()) {
    throw CLI::RequiredError("FILE, or --reference");
  } else if (names_job(arguments.file)) {
    fmt::print("{}", settings_of_job(arguments));
  } else {
    const auto settings = configs::load_settings(arguments.file, arguments.overrides);
    if (const auto conflict = configs::find_metric_conflict(settings, /*needed=*/false); !conflict.empty())
      throw configs::SettingsError("{}: {}", arguments.file, conflict);
    fmt::print("{}", configs::to_yaml(settings));
  }
}

}  // namespace

void add_config_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "config", "Print all settings that a run of a settings file would have, or with which a job runs");
  // Shared, because the callback outlives this function.
  const auto arguments = std::make_shared<Arguments>();
  auto* reference = command->add_flag("--reference", arguments->reference, "Print the reference page of all settings");
  auto* file = typed_option(
      *command, "file", arguments->file,
      "Settings file (YAML), which is checked, or the id of a job, of which four digits are enough", "FILE|JOB");
  file->excludes(reference);
  typed_option(*command, "overrides", arguments->overrides,
               "Settings that replace the file's, such as trainer.steps=100", "KEY=VALUE");
  add_queue_options(*command, arguments->queue);
  command->footer(
      "Examples:\n"
      "  foretime config settings.yaml trainer.steps=100\n"
      "  foretime config 3fa9 > best.yaml                 what the job whose id begins so trains with");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace foretime::cli
