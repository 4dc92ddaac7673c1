#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/files.h"
#include "base/message.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/agent/old_attempts.h"

namespace foretime::cli {
namespace {

struct CleanOptions {
  QueueOptions queue;
  int64_t keep = 1;
  double days = 7;
  double forgotten = -1;  // negative: not given
  bool remove = false;
};

void run(const CleanOptions& options) {
  QueueAccess access(options.queue, Start::never);
  jobs::AttemptRetention retention{options.keep, jobs::seconds_of_days(options.days)};
  if (options.forgotten >= 0) retention.forgotten = jobs::seconds_of_days(options.forgotten);
  const auto cleaned = jobs::clean_attempts(options.queue.runs, access.reader(), retention, options.remove);
  for (const auto& folder : cleaned.removed) fmt::print("{}\n", folder.string());
  for (const auto& what : cleaned.kept) print_message("{}\n", what);
  fmt::print("{} attempts {}\n", cleaned.removed.size(),
             options.remove ? "removed" : "would be removed; --remove does so");
  if (!cleaned.kept.empty())
    throw StorageError("{} attempts could not be removed; run the same command again to retry", cleaned.kept.size());
}

}  // namespace

void add_clean_command(CLI::App& app) {
  auto options = std::make_shared<CleanOptions>();
  auto* command = app.add_subcommand("clean", "Remove attempts of ended jobs that later attempts have replaced");
  shown_option(*command, "--keep", options->keep, "of a job's replaced attempts, keep the newest N", Least::zero, "N");
  shown_option(*command, "--days", options->days, "keep attempts that were written to within D days",
               number_range(0.0, 36500.0), "D");
  checked_option(*command, "--forgotten", options->forgotten,
                 "also attempts of jobs that the queue has forgotten, where nothing was written to any within D days",
                 number_range(0.0, 36500.0), "D");
  command->add_flag("--remove", options->remove, "remove them; without it they are only named");
  add_queue_options(*command, options->queue);
  command->footer(
      "Jobs that have not ended, or whose result such a job needs, are left alone. "
      "A job that the queue knows keeps its\n"
      "newest attempt, the one with its checkpoint, and the one with the best. "
      "Only folders are removed that agents of\n"
      "this queue made for that job (attempt.json says so); "
      "copies, notes and attempts of another queue that shares the\n"
      "run root stay. `foretime agent --clean-attempts D` does the same by itself.");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
