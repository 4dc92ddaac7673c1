#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "jobs/error.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/packed_record.h"
#include "jobs/queue/queue.h"
#include "tests/jobs/queue/memory_queue.h"

/// What tests see of MemoryQueue: its whole state is in the form that docs/reference/jobs.md gives to the keys.
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

/// The fields that come after submission, as text.
struct ProgressWriter {
  Hash& hash;
  void operator()(const char* name, const std::string& value, size_t) const { hash[name] = value; }
  void operator()(const char* name, const int64_t& value) const { hash[name] = text(value); }
  void operator()(const char* name, const double& value) const { hash[name] = number_text(value); }
  void operator()(const char* name, const std::optional<double>& value) const {
    hash[name] = value ? number_text(*value) : "";
  }
  void operator()(const char* name, const bool& value) const { hash[name] = flag(value); }
  void operator()(const char* name, const JobState& value) const { hash[name] = to_string(value); }
  void operator()(const char* name, const std::map<std::string, double>& value, size_t) const {
    hash[name] = value.empty() ? "" : nlohmann::json(value).dump();
  }
};

}  // namespace

using Lock = std::lock_guard<std::mutex>;

bool MemoryQueue::none_in(const std::vector<JobState>& states) {
  const auto lock = begin("none_in");
  for (const auto& [id, job] : jobs_) {
    if (std::find(states.begin(), states.end(), job.record.state) != states.end()) return false;
  }
  return true;
}

std::map<Demand, int64_t> MemoryQueue::waiting() {
  const auto lock = begin("waiting");
  std::map<Demand, int64_t> found;
  for (const auto& [id, job] : jobs_) {
    const auto& spec = job.record.spec;
    if (job.record.state == JobState::waiting)
      ++found[{spec.resources.total_cpus(), spec.resources.total_gpus(), spec.program}];
  }
  return found;
}

std::optional<JobRecord> MemoryQueue::find(const std::string& id) {
  Lock lock(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return std::nullopt;
  return found->second.record;
}

std::vector<MemoryQueue::Event> MemoryQueue::events() {
  Lock lock(mutex_);
  return events_;
}

std::vector<std::string> MemoryQueue::log(const std::string& id) {
  Lock lock(mutex_);
  const Job& job = known(id);
  return {job.written.begin(), job.written.end()};
}

int64_t MemoryQueue::proposals(const std::string& sweep) {
  Lock lock(mutex_);
  return known_sweep(sweep).proposals;
}

std::vector<std::string> MemoryQueue::changes(const std::string& sweep) {
  Lock lock(mutex_);
  return known_sweep(sweep).changes;
}

void MemoryQueue::forget_changes(const std::string& sweep, size_t last) {
  Lock lock(mutex_);
  auto& changes = known_sweep(sweep).changes;
  changes.resize(changes.size() - std::min(last, changes.size()));
}

MemoryQueue::Dump MemoryQueue::dump() {
  std::lock_guard<std::mutex> lock(mutex_);
  Dump all;
  int64_t used = 0;
  for (const auto& [id, job] : jobs_) {
    const auto& record = job.record;
    const auto& spec = record.spec;
    auto hash = pairs(spec_fields(spec));
    visit_progress(record, ProgressWriter{hash});
    if (record.eta_seconds == -1) hash.erase("eta_s");
    if (record.state == JobState::succeeded && record.best_objective == record.objective) hash.erase("best_objective");
    if (record.state == JobState::succeeded) {
      hash.erase("updated_ms");  // that is finished_ms
      if (record.total_steps == record.step) hash.erase("total_steps");
      if (hash.at("attempt") == "1") hash.erase("attempt");
    }
    const Hash more = {{"sequence", text(job.sequence)},
                       {"pending", text(job.pending)},
                       {"token", job.token},
                       {"term_ms", text(job.term_ms)},
                       {"graced", flag(job.graced)},
                       {"iteration", text(job.iteration)},
                       {"stop", flag(job.stop)},
                       {"exit_code", text(job.exit_code)},
                       {"cancelled_by", job.cancelled_by},
                       {"finished_by", job.finished_by},
                       {"lost_step", text(job.lost_step)},
                       {"lost_shared", text(job.lost_shared)},
                       {"preemptions_step", text(job.preemptions_step)}};
    hash.insert(more.begin(), more.end());
    all["job:" + id] = hash;
    for (size_t i = 0; i < job.log.size(); ++i) all["job:" + id + ":log"][fmt::format("{:04}", i)] = job.log[i];
    if (!job.artifacts.empty() || !job.artifact_trouble.empty()) {
      auto& fields = all["job:" + id + ":artifacts"];
      fields["trouble"] = job.artifact_trouble;
      for (const auto& store : job.stores) fields["store:" + store] = "1";
      for (const auto& [role, artifact] : job.artifacts) {
        fields[role] = artifact.name;
        fields["of:" + artifact.name] = artifact_text(artifact);
        if (artifact.store != kRedisStore) continue;
        fields["bytes:" + artifact.name] = text(static_cast<int64_t>(artifact.bytes()));
        auto& parts = fields["parts:" + artifact.name];
        parts.clear();
        for (const auto& [file, stored] : artifact.files) {
          for (const auto& key : redis_part_keys(fmt::format("{}/{}/{}", id, artifact.name, file), stored.bytes)) {
            parts += (parts.empty() ? "" : " ") + key;
            all[key]["value"] = "stored";
          }
        }
      }
      all["artifacts"][id] = "member";
    }
    used += static_cast<int64_t>(in_redis(job.artifacts));
    for (const auto& user : job.users) all["job:" + id + ":users"][user] = "member";
    for (const auto& child : job.children) all["job:" + id + ":children"][child] = "member";
    all["ids"][id] = score(0);
    all["state:" + to_string(record.state)][id] = score(static_cast<double>(job.entered_ms));
    if (record.state == JobState::waiting)
      all["waiting:" + waiting_shape(spec)][id] = score(static_cast<double>(job.score()));
    if (job.log_ended_ms) all["logs"][id] = score(static_cast<double>(*job.log_ended_ms));
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
    for (size_t i = 0; i < sweep.changes.size(); ++i)
      all["sweep:" + id + ":changes"][fmt::format("{:04}", i)] = sweep.changes[i];
    hash["cancelled_jobs"] = text(sweep.cancelled_jobs);
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
                            {"seen_ms", text(agent.seen_ms)}, {"started_ms", text(agent.started_ms)},
                            {"trouble", agent.info.trouble},  {"programs", flag(agent.info.runs_programs)}};
  }
  for (size_t i = 0; i < silences_.size(); ++i)
    all["silences"][fmt::format("{:04}", i)] = fmt::format("{} {}", silences_[i].from, silences_[i].to);
  for (size_t i = 0; i < losses_.size(); ++i)
    all["losses"][fmt::format("{:04}", i)] = fmt::format("{} {}", losses_[i].deadline_ms, losses_[i].agent);
  all["artifacts:use"]["bytes"] = text(used);
  for (const auto& [store, job] : gone_) all["artifacts:gone"][store + " " + job] = "member";
  if (paused_) all["paused"]["value"] = "set";
  all["settings"] = {
      {"clock_seen", text(clock_seen_ms_)}, {"clock_trusted", text(clock_trusted_ms_)}, {"alive_ms", text(alive_ms_)}};
  all["sequence"]["value"] = text(sequence_);
  for (const auto& [name, count] : totals_) all["totals"][name] = text(count);
  for (auto& [key, hash] : all)
    std::erase_if(hash, [](const auto& entry) { return entry.second.empty() || entry.second == "0"; });
  std::erase_if(all, [](const auto& entry) { return entry.second.empty(); });
  return all;
}

}  // namespace foretime::jobs
