#include <fmt/format.h>

#include "base/text.h"
#include "jobs/queue/queue_reader.h"

namespace foretime::jobs {
namespace {

struct Counter {
  const char *total, *name, *help;
};
constexpr Counter kCounters[] = {
    {"submitted", "foretime_jobs_submitted_total", "Jobs that were submitted."},
    {"claimed", "foretime_jobs_claimed_total", "Leases that were given out."},
    {"succeeded", "foretime_jobs_succeeded_total", "Jobs that succeeded."},
    {"stopped", "foretime_jobs_stopped_total", "Of these, jobs that early stopping ended."},
    {"failed", "foretime_jobs_failed_total", "Jobs that would fail again: settings, data."},
    {"cancelled", "foretime_jobs_cancelled_total", "Jobs that were cancelled."},
    {"dead", "foretime_jobs_dead_total", "Jobs that failed as often as they may."},
    {"retried", "foretime_jobs_retried_total", "Jobs that somebody had tried again."},
    {"preempted", "foretime_jobs_preempted_total", "Attempts that their agent gave back."},
    {"errors", "foretime_attempt_errors_total", "Attempts that ended in an error."},
    {"lost_leases", "foretime_leases_lost_total", "Leases that ran out."},
    {"refused", "foretime_writes_refused_total", "Writes with an old fence or token, which changed nothing."},
    {"results", "foretime_results_total", "Results that were written."},
};

/// A label's value; its escapes are those of the format.
std::string label(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return printable_utf8(escaped);
}

std::string seconds(int64_t milliseconds) { return fmt::format("{:.3f}", static_cast<double>(milliseconds) / 1000); }

std::string family(const std::string& name, const char* type, const std::string& help) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

}  // namespace

std::string to_prometheus(const QueueStatistics& statistics) {
  std::string text = family("foretime_jobs", "gauge", "Jobs in each state.");
  for (const auto& [state, count] : statistics.jobs)
    text += fmt::format("foretime_jobs{{state=\"{}\"}} {}\n", to_string(state), count);
  text += family("foretime_oldest_waiting_seconds", "gauge", "How long the oldest waiting job waits; 0: none waits.");
  text += "foretime_oldest_waiting_seconds " + seconds(statistics.oldest_waiting_ms) + "\n";
  text += family("foretime_queue_paused", "gauge", "1 while the whole queue is paused.");
  text += fmt::format("foretime_queue_paused {}\n", statistics.paused ? 1 : 0);
  for (const auto& counter : kCounters) {
    const auto total = statistics.totals.find(counter.total);
    text += family(counter.name, "counter", counter.help);
    text += fmt::format("{} {}\n", counter.name, total == statistics.totals.end() ? 0 : total->second);
  }
  text += family("foretime_agents", "gauge", "Agents heard of within a day.");
  text += fmt::format("foretime_agents {}\n", statistics.agents.size());
  const auto of_agents = [&](const std::string& name, const std::string& help, const auto& value) {
    if (statistics.agents.empty()) return;
    text += family(name, "gauge", help);
    for (const auto& agent : statistics.agents)
      text += fmt::format("{}{{agent=\"{}\"}} {}\n", name, label(agent.name), value(agent));
  };
  of_agents("foretime_agent_last_seen_seconds", "How long ago the agent was heard of.",
            [&](const AgentRecord& agent) { return seconds(statistics.now_ms - agent.seen_ms); });
  of_agents("foretime_agent_jobs", "Jobs that the agent runs.", [](const auto& agent) { return agent.jobs; });
  of_agents("foretime_agent_cpus", "CPUs that the agent has for jobs.", [](const auto& agent) { return agent.cpus; });
  of_agents("foretime_agent_gpus", "GPUs that the agent has for jobs.", [](const auto& agent) { return agent.gpus; });
  return text;
}

}  // namespace foretime::jobs
