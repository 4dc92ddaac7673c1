#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "jobs/queue/job_hash.h"
#include "jobs/queue/limits.h"
#include "tests/jobs/queue/memory_queue.h"

/// The twin's whole state in the form that docs/reference/jobs.md gives to the keys.
namespace foretime::jobs {
namespace {

using Hash = std::map<std::string, std::string>;

std::string text(int64_t value) { return std::to_string(value); }
/// Marked, so that a score of 0 is not left out.
std::string score(double value) { return "@" + number_text(value); }
std::string flag(bool value) { return value ? "1" : ""; }

Hash pairs(const std::vector<std::string>& list) {
  Hash hash;
  for (size_t i = 0; i + 1 < list.size(); i += 2) hash[list[i]] = list[i + 1];
  return hash;
}

}  // namespace

MemoryQueue::Dump MemoryQueue::dump() {
  std::lock_guard<std::mutex> lock(mutex_);
  Dump all;
  for (const auto& [id, job] : jobs_) {
    const auto& record = job.record;
    const auto& spec = record.spec;
    auto hash = pairs(spec_fields(spec));
    const auto optional = [](const std::optional<double>& value) { return value ? number_text(*value) : ""; };
    const Hash more = {{"id", id},
                       {"sequence", text(job.sequence)},
                       {"pending", text(job.pending)},
                       {"state", to_string(record.state)},
                       {"attempt", text(record.attempt)},
                       {"failures", text(record.failures)},
                       {"fence", text(record.fence)},
                       {"token", job.token},
                       {"agent", record.agent},
                       {"submitted_ms", text(record.submitted_ms)},
                       {"claimed_ms", text(record.claimed_ms)},
                       {"finished_ms", text(record.finished_ms)},
                       {"due_ms", text(record.due_ms)},
                       {"updated_ms", text(record.updated_ms)},
                       {"term_ms", text(job.term_ms)},
                       {"graced", flag(job.graced)},
                       {"step", text(record.step)},
                       {"total_steps", text(record.total_steps)},
                       {"loss", number_text(record.loss)},
                       {"eta_s", record.eta_seconds == -1 ? "" : number_text(record.eta_seconds)},
                       {"iteration", text(job.iteration)},
                       {"objective", optional(record.objective)},
                       {"best_objective", optional(record.best_objective)},
                       {"metrics", record.metrics.empty() ? "" : nlohmann::json(record.metrics).dump()},
                       {"checkpoint", record.checkpoint},
                       {"stop", flag(job.stop)},
                       {"stopped", flag(record.stopped)},
                       {"cancel", flag(record.cancel_requested)},
                       {"reason", record.reason},
                       {"error", record.error},
                       {"exit_code", text(job.exit_code)},
                       {"seconds", number_text(record.seconds)},
                       {"cancelled_by", job.cancelled_by},
                       {"finished_by", job.finished_by},
                       {"log_lines", text(record.log_lines)},
                       {"results", text(record.results)}};
    hash.insert(more.begin(), more.end());
    all["job:" + id] = hash;
    for (size_t i = 0; i < job.log.size(); ++i) all["job:" + id + ":log"][fmt::format("{:04}", i)] = job.log[i];
    for (const auto& child : job.children) all["job:" + id + ":children"][child] = "member";
    all["ids"][id] = score(0);
    all["state:" + to_string(record.state)][id] = score(static_cast<double>(job.entered_ms));
    if (record.state == JobState::waiting)
      all[fmt::format("waiting:c{}g{}", job.cpus(), job.gpus())][id] = score(static_cast<double>(job.score()));
    if (record.state == JobState::delayed) all["delayed"][id] = score(static_cast<double>(record.due_ms));
    if (record.state == JobState::active) all["leases"][id] = score(static_cast<double>(job.deadline_ms));
    if (record.state == JobState::held) {
      all["held:" + spec.sweep][id] = score(static_cast<double>(job.score()));
      all["held"][spec.sweep] = "member";
    }
    if (!spec.sweep.empty()) all["sweep:" + spec.sweep + ":jobs"][id] = score(static_cast<double>(spec.trial));
  }
  for (const auto& [id, sweep] : sweeps_) {
    auto hash = pairs(sweep_fields(sweep.spec));
    hash["state"] = sweep.state;
    hash["created_ms"] = text(sweep.created_ms);
    hash["proposals"] = text(sweep.proposals);
    all["sweep:" + id] = hash;
    all["sweeps"][id] = score(static_cast<double>(sweep.created_ms));
    for (const auto& [rung, seen] : sweep.rungs)
      for (const auto& [job, value] : seen) all[fmt::format("sweep:{}:rung:{}", id, rung)][job] = score(value);
  }
  for (const auto& [name, agent] : agents_) {
    all["agents"][name] = score(static_cast<double>(agent.seen_ms));
    all["agent:" + name] = {{"host", agent.info.host},        {"version", agent.info.version},
                            {"pid", text(agent.info.pid)},    {"cpus", text(agent.info.cpus)},
                            {"gpus", text(agent.info.gpus)},  {"jobs", text(agent.info.jobs)},
                            {"seen_ms", text(agent.seen_ms)}, {"started_ms", text(agent.started_ms)}};
  }
  for (size_t i = 0; i < silences_.size(); ++i)
    all["silences"][fmt::format("{:04}", i)] = fmt::format("{} {}", silences_[i].from, silences_[i].to);
  if (paused_) all["paused"]["value"] = "set";
  all["alive_ms"]["value"] = text(alive_ms_);
  all["sequence"]["value"] = text(sequence_);
  for (const auto& [name, count] : totals_) all["totals"][name] = text(count);
  for (auto& [key, hash] : all)
    std::erase_if(hash, [](const auto& entry) { return entry.second.empty() || entry.second == "0"; });
  std::erase_if(all, [](const auto& entry) { return entry.second.empty(); });
  return all;
}

}  // namespace foretime::jobs
