#include <algorithm>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/duration.h"
#include "base/table.h"
#include "base/terminal.h"
#include "cli/jobs/job_view.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/redis/redis_health.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

struct QueueCommandOptions {
  QueueOptions queue;
  bool json = false, prometheus = false;
  double keep_days = -1;   // negative: not given
  int64_t keep_jobs = -1;  // likewise
  int64_t artifact_mib = -1;
};

std::string states_table(const jobs::QueueStatistics& statistics) {
  std::vector<std::vector<std::string>> rows = {{"state", "jobs"}};
  for (const auto& [state, count] : statistics.jobs) rows.push_back({jobs::to_string(state), fmt::format("{}", count)});
  return format_table(rows, output_width());
}

std::string totals_table(const jobs::QueueStatistics& statistics) {
  std::vector<std::vector<std::string>> rows = {{"transition", "ever", "a minute"}};
  for (const auto& [name, count] : statistics.totals) {
    const auto rate = statistics.per_minute.find(name);
    rows.push_back({name, fmt::format("{}", count),
                    rate == statistics.per_minute.end() ? "-" : fmt::format("{:.1f}", rate->second)});
  }
  return format_table(rows, output_width());
}

std::string agents_table(const jobs::QueueStatistics& statistics) {
  std::vector<std::vector<std::string>> rows = {{"agent", "host", "pid", "CPUs", "GPUs", "jobs", "version", "seen"}};
  for (const auto& agent : statistics.agents)
    rows.push_back({one_line(agent.name, 40), one_line(agent.host, 40), fmt::format("{}", agent.pid),
                    fmt::format("{}", agent.cpus), fmt::format("{}", agent.gpus), fmt::format("{}", agent.jobs),
                    one_line(agent.version, 20),
                    agent.unreadable.empty() ? age_text(statistics.now_ms - agent.seen_ms) + " ago"
                                             : one_line(agent.unreadable, 200)});
  auto text = format_table(rows, output_width());
  for (const auto& agent : statistics.agents)
    if (!agent.trouble.empty() && is_heard(agent, statistics))
      text += fmt::format("agent {} claims nothing: {}\n", one_line(agent.name, 40), one_line(agent.trouble, 400));
  return text;
}

void run(const QueueCommandOptions& options) {
  const bool keeps = options.keep_days >= 0 || options.keep_jobs >= 0 || options.artifact_mib >= 0;
  const bool changes = keeps || options.queue.accept_loss;
  QueueAccess access(options.queue, changes ? Start::never : Start::to_read);
  jobs::Retention keep;
  if (options.keep_days >= 0) keep.time = milliseconds_of(options.keep_days * 24 * 3600);
  if (options.keep_jobs >= 0) keep.jobs = options.keep_jobs;
  if (options.artifact_mib >= 0) keep.artifact_bytes = options.artifact_mib << 20;
  if (keeps) access.agree_to_keep(keep, true);
  const auto statistics = access.reader().statistics();
  if (options.prometheus) {
    fmt::print("{}", jobs::to_prometheus(statistics));
    return;
  }
  auto health = jobs::examine(access.client());
  for (auto& warning : access.warnings())
    if (std::find(health.warnings.begin(), health.warnings.end(), warning) == health.warnings.end())
      health.warnings.push_back(std::move(warning));
  if (options.json) {
    auto json = cli::to_json(statistics);
    json["redis"] = {{"address", access.name()},
                     {"version", health.version},
                     {"role", health.role},
                     {"appendonly", health.appendonly},
                     {"appendfsync", health.appendfsync},
                     {"maxmemory_policy", health.maxmemory_policy},
                     {"warnings", health.warnings}};
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("Redis {} at {}\n", health.version, access.name());
  for (const auto& warning : health.warnings) fmt::print("  warning: {}\n", warning);
  for (const auto& what : statistics.unreadable) fmt::print("  damaged: {}\n", one_line(what, 400));
  if (statistics.paused) fmt::print("the queue is PAUSED: nothing is claimed (foretime resume)\n");
  if (const auto keep = statistics.keep_finished_ms)
    fmt::print("jobs that ended are kept {}\n",
               *keep == 0 ? "for ever" : fmt::format("for {:g} days", *keep / 86'400'000.0));
  if (const auto keep = statistics.keep_jobs; keep && *keep > 0)
    fmt::print("of those, the newest {} are kept\n", *keep);
  if (statistics.artifact_bytes > 0)
    fmt::print("{:.1f} MiB of artifacts are in Redis, of at most {:.0f}\n", statistics.artifact_bytes / 0x1p20,
               statistics.artifact_quota.value_or(access.settings().artifact_bytes) / 0x1p20);
  fmt::print("\n{}\noldest waiting: {}\n\n{}\n", states_table(statistics),
             statistics.oldest_waiting_ms > 0 ? age_text(statistics.oldest_waiting_ms) : "-", totals_table(statistics));
  fmt::print("{}", programs_notice(statistics));
  fmt::print("{}", statistics.agents.empty() ? "no agent was heard of; `foretime agent` starts one\n"
                                             : agents_table(statistics));
}

}  // namespace

void add_queue_command(CLI::App& app) {
  auto options = std::make_shared<QueueCommandOptions>();
  auto* command =
      app.add_subcommand("queue", "Depths, rates, lost leases and agents of the queue; health of its Redis");
  auto* json = command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--prometheus", options->prometheus, "print Prometheus' text format")->excludes(json);
  checked_option(*command, "--keep-days", options->keep_days,
                 "from now on forget jobs that ended so long ago; 0: never. For all agents of the queue",
                 number_range(0.0, 36500.0), "D");
  checked_option(*command, "--keep-jobs", options->keep_jobs,
                 "from now on keep at most so many jobs that ended; 0: all. For all agents of the queue", Least::zero,
                 "N");
  checked_option(*command, "--artifact-mib", options->artifact_mib,
                 "from now on Redis holds at most so many MiB of checkpoints (foretime agent --artifacts redis). "
                 "For all agents of the queue",
                 CLI::Range(int64_t{0}, int64_t{1} << 30), "N");
  command->add_flag(
      "--accept-loss", options->queue.accept_loss,
      "continue with what is left where data of the Redis inside --runs are lost, which other commands refuse");
  add_queue_options(*command, options->queue);
  command->footer("Rates are those of the last five minutes.");
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
