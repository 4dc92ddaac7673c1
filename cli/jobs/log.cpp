#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/message.h"
#include "base/text.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/error.h"

namespace foretime::cli {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(500);

struct LogOptions {
  QueueOptions queue;
  std::string id;
  bool follow = false;
  int64_t lines = jobs::Limits::kLogLines;
};

/// Prints what is new, at most `most` lines; `seen` counts the lines that were ever written.
void print_new(const std::vector<std::string>& ring, int64_t total, int64_t most, int64_t& seen) {
  const auto kept = std::ssize(ring);
  const int64_t fresh = std::clamp<int64_t>(total - seen, 0, kept), count = std::min(fresh, most);
  if (seen > 0 && total - seen > kept)
    fmt::print("… {} lines are not kept any more; output.log in the folder of the attempt has all\n",
               total - seen - kept);
  for (auto i = ring.end() - count; i != ring.end(); ++i) fmt::print("{}\n", printable_utf8(*i));
  flush_output();
  seen = total;
}

void run(const LogOptions& options) {
  QueueAccess access(options.queue, Start::to_read);
  const auto id = access.reader().resolve_job(options.id);
  int64_t seen = 0, total = 0;
  // The state is read first: what a job wrote before it ended is then in the ring that is read afterwards.
  auto job = access.reader().job(id);
  auto ring = access.reader().log(id, total);
  if (ring.empty() && !options.follow) {
    print_message("job {} has no output ({})\n", id, job ? to_string(job->state) : "forgotten");
    return;
  }
  const auto kept = std::ssize(ring);
  if (job && is_final(job->state) && total > kept && options.lines > kept)
    print_message("the last {} of {} lines; output.log in the folder of the attempt has all\n", kept, total);
  print_new(ring, total, options.lines, seen);
  while (options.follow && job && !is_final(job->state)) {
    std::this_thread::sleep_for(kInterval);
    try {
      job = access.reader().job(id);
      ring = access.reader().log(id, total);
    } catch (const jobs::RedisUnavailable& error) {
      print_message("{}; trying again\n", error.what());
      std::this_thread::sleep_for(2 * kInterval);
      continue;
    }
    print_new(ring, total, jobs::Limits::kLogLines, seen);
  }
}

}  // namespace

void add_log_command(CLI::App& app) {
  auto options = std::make_shared<LogOptions>();
  auto* command = app.add_subcommand("log", "Print the last lines that a job wrote");
  needed_option(*command, "id", options->id, "id of the job; the first digits are enough", "ID");
  command->add_flag("--follow,-f", options->follow, "keep printing until the job has ended");
  shown_option(*command, "--lines,-n", options->lines, "the last so many; at most 200 are kept in Redis",
               CLI::Range(int64_t{0}, jobs::Limits::kLogLines), "N");
  add_queue_options(*command, options->queue);
  command->footer("All that a job wrote is in RUNS/ID/attempt-N/output.log on the agent's machine.");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
