#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/message.h"
#include "cli/jobs/changes.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"

/// Commands that change jobs and sweeps: cancel, pause, resume, retry, priority.
namespace foretime::cli {
namespace {

struct ControlOptions {
  QueueOptions queue;
  std::vector<std::string> ids;
  std::string id;  // job or sweep of `priority`, which takes only one
  int64_t priority = 0;
};

void print(const Change& change) {
  for (const auto& warning : change.warnings) print_message("warning: {}\n", warning);
  fmt::print("{}\n", change.text);
}

/// Applies `change` to each id, in order.
void for_each_id(const ControlOptions& options, Change (*change)(QueueAccess&, const std::string&)) {
  QueueAccess access(options.queue, Start::never);
  for (const auto& id : options.ids) print(change(access, id));
}

/// Pauses or resumes sweeps; changes nothing if one of the ids is not a sweep.
void pause_or_resume(const ControlOptions& options, bool is_resume) {
  QueueAccess access(options.queue, Start::never);
  auto ids = options.ids;
  if (ids.empty()) ids.emplace_back();
  for (auto& id : ids) id = sweep_to_pause(access, id, is_resume ? "resume" : "pause");
  for (const auto& id : ids) print(is_resume ? resume(access, id) : pause(access, id));
}

CLI::App* add(CLI::App& app, const char* name, const char* meaning, const std::shared_ptr<ControlOptions>& options,
              bool needs_id) {
  auto* command = app.add_subcommand(name, meaning);
  auto* ids = command->add_option("id", options->ids, "ids of jobs or sweeps; the first digits are enough");
  ids->type_name("ID");
  if (needs_id) ids->required();
  add_queue_options(*command, options->queue);
  return command;
}

}  // namespace

void add_control_commands(CLI::App& app) {
  auto options = std::make_shared<ControlOptions>();
  add(app, "cancel", "Cancel jobs, or all jobs of sweeps; those that run end after a checkpoint", options, true)
      ->callback([options] { for_each_id(*options, cancel); });
  add(app, "pause", "Start no more jobs of these sweeps; without an id, of the whole queue", options, false)
      ->callback([options] { pause_or_resume(*options, false); });
  add(app, "resume", "Undo pause", options, false)->callback([options] { pause_or_resume(*options, true); });
  add(app, "retry", "Let failed, dead and cancelled jobs wait again, or those of sweeps", options, true)
      ->callback([options] { for_each_id(*options, retry); });
  auto* priority = app.add_subcommand("priority", "Change the priority of a job, or of a sweep's jobs");
  needed_option(*priority, "id", options->id, "id of a job or sweep; the first digits are enough", "ID");
  checked_option(*priority, "priority", options->priority, "larger first",
                 CLI::Range(-jobs::Limits::kPriority, jobs::Limits::kPriority), "N")
      ->required();
  add_queue_options(*priority, options->queue);
  priority->footer("Example: foretime priority 3fa9 100; a negative one: foretime priority 3fa9 -- -100");
  priority->callback([options] {
    QueueAccess access(options->queue, Start::never);
    print(set_priority(access, options->id, options->priority));
  });
}

}  // namespace foretime::cli
