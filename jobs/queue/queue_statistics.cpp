#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/packed_record.h"
#include "jobs/queue/queue.h"
#include "jobs/queue/queue_reader.h"

namespace foretime::jobs {
namespace {

constexpr int64_t kWindowMs = 5 * 60 * 1000;
constexpr int64_t kEventsInAnswer = 2000;
constexpr int64_t kMostEvents = 100'000;
/// A counter of the queue, with its name and help in Prometheus' format.
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
    {"unreadable", "foretime_jobs_unreadable_total", "Of these, jobs whose record no agent could read."},
    {"retried", "foretime_jobs_retried_total", "Jobs that somebody had tried again."},
    {"preempted", "foretime_jobs_preempted_total", "Attempts that their agent gave back."},
    {"errors", "foretime_attempt_errors_total", "Attempts that ended in an error."},
    {"lost_leases", "foretime_leases_lost_total", "Leases that ran out."},
    {"regained", "foretime_leases_regained_total", "Of these, leases that came back to their holders."},
    {"refused", "foretime_writes_refused_total", "Writes with an old fence or token, which changed nothing."},
    {"results", "foretime_results_total", "Results that were written."},
};
/// Returns which totals a transition raises; the scripts count where they write the event.
std::vector<std::string> counted(const std::string& event, const std::string& from, const std::string& to) {
  if (event == "refuse") return {"refused"};
  std::vector<std::string> names;
  if (event == "submit") names.push_back("submitted");
  if (event == "unreadable") names.push_back("unreadable");
  if (event == "claim") names.push_back("claimed");
  if (event == "error") names.push_back("errors");
  if (event == "lost") names.push_back("lost_leases");
  if (event == "regain") names.push_back("regained");
  if (event == "preempt" && to != "cancelled") names.push_back("preempted");
  // From cancelled to blocked: as a rule not retried itself, but blocked again by the retry of what it needs.
  if (event == "retry" && !(from == "cancelled" && to == "blocked")) names.push_back("retried");
  if (to == "succeeded") names.insert(names.end(), {"succeeded", "results"});
  if (to == "failed" || to == "cancelled" || to == "dead") names.push_back(to);
  return names;
}

constexpr size_t kMostNamedUnreadable = 20;

struct StreamId {
  uint64_t ms = 0, sequence = 0;
  bool parse(std::string_view text) {
    const auto first = take_number<uint64_t>(text);
    const auto second = text.starts_with('-') ? parse_number<uint64_t>(text.substr(1)) : std::nullopt;
    ms = first.value_or(0);
    sequence = second.value_or(0);
    return first && second;
  }
  /// Returns the greatest id before this one.
  std::string before() const {
    return sequence > 0 ? fmt::format("{}-{}", ms, sequence - 1) : fmt::format("{}", ms == 0 ? 0 : ms - 1);
  }
};

std::string text_at(const redisReply& reply, size_t index) {
  return index < reply.elements ? text_of(*reply.element[index]) : "";
}

std::string damage(const std::string& key, const std::string& what, const std::string& found,
                   const std::string& expected) {
  return fmt::format("{}: {}: '{}', expected {}; was it written by another program?", key,
                     printable_utf8(what.substr(0, 100)), printable_utf8(found.substr(0, 40)), expected);
}

[[noreturn]] void damaged(const std::string& key, const std::string& what, const std::string& found,
                          const std::string& expected) {
  throw DamagedRecord(damage(key, what, found, expected));
}

int64_t score_ms(const std::string& key, const std::string& member, const std::string& score) {
  const auto value = parse_number<double>(score);
  if (!value || !(std::abs(*value) < 9e15)) damaged(key, "score of " + member, score, "milliseconds since 1970");
  return *value;
}

/// Returns a label's value with the escapes of the format.
std::string label(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') escaped += "\\n";
    else escaped += c;
  }
  return printable_utf8(escaped);
}

std::string seconds(int64_t milliseconds) { return fmt::format("{:.3f}", milliseconds / 1000.0); }

std::string family(const std::string& name, const char* type, const std::string& help) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

}  // namespace

QueueStatistics QueueReader::statistics() {
  QueueStatistics statistics;
  statistics.jobs = zero_counts();
  Arguments totals = {"HMGET", key("totals")};
  for (const auto& counter : kCounters) totals.emplace_back(counter.total);
  std::vector<Arguments> calls = {{"TIME"},
                                  totals,
                                  {"EXISTS", key("paused")},
                                  {"ZRANGE", key("state:waiting"), "0", "0", "WITHSCORES"},
                                  {"ZREVRANGE", key("agents"), "0", std::to_string(kMostAgents - 1)},
                                  {"HMGET", key("settings"), "keep_finished_ms", "keep_jobs", "artifact_bytes"},
                                  {"HGET", key("artifacts:use"), "bytes"}};
  const size_t first_count = calls.size();
  for (const auto& [state, count] : statistics.jobs) calls.push_back({"ZCARD", key("state:" + to_string(state))});
  std::map<size_t, std::string> wrong;
  const auto replies = ask(calls, &wrong);
  for (const auto& [index, what] : wrong) statistics.unreadable.push_back(what);

  // Whatever is damaged is told of, and hides nothing else.
  const auto careful = [&](const auto& read) {
    try {
      read();
    } catch (const RedisUnavailable&) {
      throw;
    } catch (const JobsError& error) {
      statistics.unreadable.emplace_back(error.what());
    }
  };
  const Fields time = {{"s", text_at(*replies[0], 0)}, {"us", text_at(*replies[0], 1)}};
  const HashReader clock("TIME", time);
  statistics.now_ms = clock.time("s") * 1000 + clock.time("us") / 1000;
  const auto counted_so_far = [&](const char* total, size_t i) {
    const Fields counters = {{total, text_at(*replies[1], i)}};
    return HashReader(key("totals"), counters).integer(total);
  };
  for (size_t i = 0; replies[1] && i < std::size(kCounters); ++i)
    careful([&] { statistics.totals[kCounters[i].total] = counted_so_far(kCounters[i].total, i); });
  if (replies[1]) {
    // Each success has one.
    statistics.totals.erase("results");
    if (const auto found = statistics.totals.find("succeeded"); found != statistics.totals.end())
      statistics.totals["results"] = found->second;
  }
  if (replies[2]) statistics.paused = integer_of(*replies[2]) != 0;
  if (replies[3] && replies[3]->elements > 0) {
    careful([&] {
      const auto since = score_ms(key("state:waiting"), text_at(*replies[3], 0), text_at(*replies[3], 1));
      statistics.oldest_waiting_ms = std::max<int64_t>(1, statistics.now_ms - since);
    });
  }
  if (replies[5]) {
    const Fields kept = {{"keep_finished_ms", text_at(*replies[5], 0)},
                         {"keep_jobs", text_at(*replies[5], 1)},
                         {"artifact_bytes", text_at(*replies[5], 2)}};
    const HashReader settings(key("settings"), kept);
    careful([&] {
      if (!kept.at("keep_finished_ms").empty()) statistics.keep_finished_ms = settings.integer("keep_finished_ms");
    });
    careful([&] {
      if (!kept.at("keep_jobs").empty()) statistics.keep_jobs = settings.integer("keep_jobs");
    });
    careful([&] {
      if (!kept.at("artifact_bytes").empty()) statistics.artifact_quota = settings.integer("artifact_bytes");
    });
  }
  if (replies[6]) {
    const Fields use = {{"bytes", text_of(*replies[6])}};
    careful([&] { statistics.artifact_bytes = HashReader(key("artifacts:use"), use).integer("bytes"); });
  }
  size_t at = first_count;
  for (auto& [state, count] : statistics.jobs)
    if (const auto& reply = replies[at++]) count = integer_of(*reply);
  careful([&] { statistics.waiting_for_programs = count_waiting_for_programs(); });
  if (replies[4]) careful([&] { read_agents(texts_of(*replies[4]), statistics); });
  careful([&] { read_rates(statistics); });
  return statistics;
}

int64_t QueueReader::count_waiting_for_programs() {
  std::vector<Arguments> counts;
  for (const auto& text : texts_of(*ask({{"SMEMBERS", key("shapes")}})[0])) {
    const auto shape = parse_waiting_shape(text);
    if (shape && !shape->program.empty()) counts.push_back({"ZCARD", key("waiting:" + text)});
  }
  int64_t jobs = 0;
  for (const auto& reply : counts.empty() ? std::vector<Reply>() : ask(counts)) jobs += integer_of(*reply);
  return jobs;
}

void QueueReader::read_agents(std::vector<std::string> names, QueueStatistics& statistics) {
  std::erase_if(names, [&](const std::string& name) {
    if (name.size() <= Limits::kName) return false;
    statistics.unreadable.push_back(
        damage(key("agents"), "a member", name, fmt::format("a name of at most {} bytes", Limits::kName)));
    return true;
  });
  const auto mark = [&](const std::string& name, const std::string& why) {
    auto& agent = statistics.agents.emplace_back();
    agent.name = name;
    agent.unreadable = why;
  };
  const auto take = [&](const std::string& name, const redisReply& reply) {
    const auto fields = fields_of(reply);
    if (fields.empty()) return;  // the agent left meanwhile
    const HashReader read(key("agent:" + name), fields);
    try {
      statistics.agents.push_back({.name = name,
                                   .host = read.text("host", Limits::kName),
                                   .version = read.text("version", Limits::kName),
                                   .seen_ms = read.time("seen_ms"),
                                   .started_ms = read.time("started_ms"),
                                   .pid = read.integer("pid"),
                                   .cpus = read.integer("cpus"),
                                   .gpus = read.integer("gpus"),
                                   .jobs = read.integer("jobs"),
                                   .runs_programs = read.flag("programs"),
                                   .trouble = read.text("trouble", Limits::kTrouble)});
    } catch (const JobsError& error) {
      mark(name, error.what());
    }
  };
  ask_each("agent:", names, {"HGETALL"}, take, mark);
  std::sort(statistics.agents.begin(), statistics.agents.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

void QueueReader::read_rates(QueueStatistics& statistics) {
  const auto stream = key("events");
  const int64_t window_start = statistics.now_ms - kWindowMs;
  std::map<std::string, int64_t> counts;
  for (const auto& counter : kCounters)
    if (std::string_view(counter.total) != "stopped") counts[counter.total] = 0;
  // Newest first, so that a bound cuts the oldest.
  StreamId oldest;
  int64_t seen = 0;
  bool whole = false;
  for (std::string end = "+"; !whole && seen < kMostEvents; end = oldest.before()) {
    const auto replies = ask({{"XREVRANGE", stream, end, std::to_string(std::max<int64_t>(0, window_start)), "COUNT",
                               std::to_string(kEventsInAnswer)}});
    const auto& page = *replies[0];
    for (size_t i = 0; i < page.elements; ++i) {
      const auto& entry = *page.element[i];
      const auto id = text_at(entry, 0);
      if (!oldest.parse(id) || entry.elements != 2) damaged(stream, "entry", id, "an id and its fields");
      try {
        for (const auto& fields : transitions_of(fields_of(*entry.element[1]))) {
          const HashReader read(stream + " entry " + id, fields);
          const auto event = read.text("event", Limits::kName);
          if (event.empty()) read.damaged("event", "nothing", "the name of a transition");
          for (const auto& name : counted(event, read.text("from", Limits::kName), read.text("to", Limits::kName)))
            ++counts[name];
        }
      } catch (const JobsError& error) {  // it counts for nothing
        if (statistics.unreadable.size() < kMostNamedUnreadable) statistics.unreadable.emplace_back(error.what());
      }
    }
    seen += page.elements;
    whole = std::cmp_less(page.elements, kEventsInAnswer);
  }
  // A stream with fewer entries than it is trimmed to was never trimmed: nothing happened before its first one.
  int64_t span = kWindowMs;
  if (seen > 0) {
    const auto earlier = ask({{"XREVRANGE", stream, oldest.before(), "-", "COUNT", "1"}});
    const bool cut = !whole || (seen >= settings_.events && earlier[0]->elements == 0);
    const uint64_t now = std::max<int64_t>(0, statistics.now_ms);
    if (cut) span = oldest.ms < now ? static_cast<int64_t>(now - oldest.ms) : 0;
  }
  const double minutes = std::clamp<int64_t>(span, 1000, kWindowMs) / 60000.0;
  for (const auto& [name, count] : counts) statistics.per_minute[name] = count / minutes;
}

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
  of_agents("foretime_agent_in_trouble", "1 while the agent claims nothing because its machine fails jobs.",
            [](const AgentRecord& agent) { return agent.trouble.empty() ? 0 : 1; });
  return text;
}

}  // namespace foretime::jobs
