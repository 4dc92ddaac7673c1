#include <algorithm>
#include <chrono>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "jobs/error.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/queue.h"
#include "tests/jobs/queue/memory_queue.h"

/// The steps that the transitions of MemoryQueue share, and what tests look at.
/// Its whole state is in the form that docs/reference/jobs.md gives to the keys.
namespace foretime::jobs {
namespace {

constexpr int64_t kDay = 24LL * 3600 * 1000;
constexpr int64_t kShortestSilence = 1000;  // shorter ones are never told from an idle queue
constexpr int64_t kAliveNews = 250;         // after so long it is written down again that agents reach the queue
constexpr size_t kSilences = 8;
constexpr int64_t kLogLingers = 60000;  // the log of a job is kept whole for so long after its end
constexpr size_t kWholeLogs = 1000;     // of so many jobs
constexpr int64_t kAgentNews = 30000;   // an agent that says nothing new is written down again after so long

using Hash = std::map<std::string, std::string>;

std::string text(int64_t value) { return std::to_string(value); }
/// Marked, so that a score of 0 is not left out.
std::string score(double value) { return "@" + number_text(value); }
/// In [0, 1): jobs that were lost together must part.
double spread(const std::string& id, int64_t times) {
  int64_t sum = times;
  for (const char c : id) sum = (sum * 251 + static_cast<unsigned char>(c)) % 65521;
  return static_cast<double>(sum * 17 % 1000) / 1000;
}
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

std::unique_lock<std::mutex> MemoryQueue::begin(const char* call) {
  if (before) before(call);
  return std::unique_lock(mutex_);
}

int64_t MemoryQueue::now() const {
  if (manual_clock_) return manual_now_ms_;
  return std::chrono::duration_cast<Milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void MemoryQueue::set_now_ms(int64_t now_ms) {
  Lock lock(mutex_);
  manual_clock_ = true;
  manual_now_ms_ = now_ms;
}

void MemoryQueue::advance(Milliseconds duration) {
  Lock lock(mutex_);
  const int64_t start = now();
  manual_clock_ = true;
  manual_now_ms_ = start + duration.count();
}

int64_t MemoryQueue::now_ms() {
  Lock lock(mutex_);
  return now();
}

void MemoryQueue::touch(bool leasing) {
  if (now() < alive_ms_) silences_.clear();
  const bool leases = std::any_of(jobs_.begin(), jobs_.end(),
                                  [](const auto& entry) { return entry.second.record.state == JobState::active; });
  if (!leasing && !leases) return;
  if (alive_ms_ > 0 && now() >= alive_ms_ && now() - alive_ms_ <= kAliveNews) return;
  const bool expired = std::any_of(jobs_.begin(), jobs_.end(), [this](const auto& entry) {
    return entry.second.record.state == JobState::active && entry.second.deadline_ms >= alive_ms_ &&
           entry.second.deadline_ms <= now();
  });
  if (alive_ms_ != 0 && now() - alive_ms_ > kShortestSilence && expired) {
    silences_.push_back({alive_ms_, now()});
    if (silences_.size() > kSilences) silences_.erase(silences_.begin());
  }
  alive_ms_ = now();
}

void MemoryQueue::event(const std::string& name, const Job& job, JobState from) {
  events_.push_back(
      {name, job.record.spec.id, to_string(from), to_string(job.record.state), job.record.fence, job.record.agent});
}

void MemoryQueue::enter(Job& job, JobState state, const std::string& name) {
  const auto from = job.record.state;
  job.record.state = state;
  job.record.updated_ms = now();
  job.entered_ms = is_final(state) ? std::max(now(), trusted_now(false)) : now();
  job.record.due_ms = 0;
  if (is_final(state)) {
    job.record.finished_ms = now();
    settle_down(job);
  }
  if (is_final(state) || is_final(from)) note_trial(job);
  event(name, job, from);
}

/// What nobody asks of a job that has ended is dropped; most of its log goes a minute later.
void MemoryQueue::settle_down(Job& job) {
  auto& record = job.record;
  const bool succeeded = record.state == JobState::succeeded;
  record.cancel_requested = job.graced = false;
  job.token.clear();
  job.term_ms = job.iteration = 0;
  if (succeeded) {
    record.eta_seconds = -1;
    record.loss = 0;
    job.sequence = job.exit_code = 0;
    job.stop = false;
    record.error.clear();
    record.failed_on.clear();
  }
  if (record.log_lines == 0) return;
  job.log_ended_ms = now();
  std::vector<std::tuple<int64_t, std::string>> whole;
  for (const auto& [id, other] : jobs_)
    if (other.log_ended_ms) whole.emplace_back(*other.log_ended_ms, id);
  if (whole.size() > kWholeLogs) trim_log(jobs_.at(std::get<1>(*std::min_element(whole.begin(), whole.end()))));
}

void MemoryQueue::trim_log(Job& job) {
  job.log_ended_ms.reset();
  if (!is_final(job.record.state)) return;
  const bool succeeded = job.record.state == JobState::succeeded;
  size_t bytes = succeeded ? 160 : 8192, kept = 0;
  const size_t most = succeeded ? 2 : 50;
  while (kept < std::min(most, job.log.size())) {
    const auto size = job.log[job.log.size() - 1 - kept].size();
    if (kept > 0 && size > bytes) break;
    bytes -= std::min(bytes, size);
    ++kept;
  }
  job.log.erase(job.log.begin(), job.log.end() - static_cast<std::ptrdiff_t>(kept));
}

void MemoryQueue::trim_logs() {
  for (auto& [id, job] : jobs_)
    if (job.log_ended_ms && *job.log_ended_ms <= now() - kLogLingers) trim_log(job);
}

void MemoryQueue::note_trial(const Job& job) {
  const auto found = sweeps_.find(job.record.spec.sweep);
  if (found != sweeps_.end() && found->second.spec.method == "bayes")
    found->second.changes.push_back(job.record.spec.id);
}

MemoryQueue::Job* MemoryQueue::holder(const Lease& lease) {
  const auto found = jobs_.find(lease.job);
  if (found != jobs_.end() && found->second.record.fence == lease.fence && found->second.token == lease.token) {
    Job& job = found->second;
    const auto in = job.record.state;
    if (in == JobState::active) return &job;
    // The lease was lost, and nobody took the job since: it comes back.
    if ((in == JobState::waiting || in == JobState::delayed) &&
        job.finished_by != fmt::format("{}:{}", lease.fence, lease.token)) {
      enter(job, JobState::active, "regain");
      job.deadline_ms = now() + job.term_ms;
      job.graced = false;
      job.record.lost = std::max<int64_t>(0, job.record.lost - 1);
      if (!job.stop) job.record.reason.clear();
      ++totals_["regained"];
      return &job;
    }
  }
  ++totals_["refused"];
  const auto state = found == jobs_.end() ? "" : to_string(found->second.record.state);
  events_.push_back({"refuse", lease.job, state, state, lease.fence, lease.agent});
  return nullptr;
}

MemoryQueue::Job& MemoryQueue::known(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) throw JobRefused("job {} is unknown", id);
  return found->second;
}

MemoryQueue::SweepEntry& MemoryQueue::known_sweep(const std::string& id) {
  const auto found = sweeps_.find(id);
  if (found == sweeps_.end()) throw JobRefused("sweep {} is unknown", id);
  return found->second;
}

bool MemoryQueue::sweep_is(const Job& job, const std::string& state) {
  const auto found = sweeps_.find(job.record.spec.sweep);
  return found != sweeps_.end() && found->second.state == state;
}

Lease MemoryQueue::lease_of(const Job& job) const {
  auto record = job.record;
  if (const auto found = sweeps_.find(record.spec.sweep);
      found != sweeps_.end() && record.spec.settings == kSweepSettings && !found->second.spec.settings.empty())
    record.spec.settings = found->second.spec.settings;
  return {.job = record.spec.id,
          .agent = record.agent,
          .fence = record.fence,
          .token = job.token,
          .attempt = record.attempt,
          .failed_on = record.failed_on,
          .deadline_ms = job.deadline_ms,
          .spec = record.spec,
          .ranks = record.attempt_ranks,
          .checkpoint = record.checkpoint};
}

Directive MemoryQueue::directive(const Job& job) {
  if (job.record.cancel_requested) return Directive::cancel;
  return job.stop ? Directive::stop : Directive::proceed;
}

void MemoryQueue::cancel_one(Job& job, const std::string& name, const std::string& reason, const std::string& by) {
  job.record.reason = reason;
  job.cancelled_by = by;
  ++totals_["cancelled"];
  enter(job, JobState::cancelled, name);
}

void MemoryQueue::cancel_now(Job& job, const std::string& name, const std::string& reason) {
  cancel_one(job, name, reason, "");
  settle(job);
}

int64_t MemoryQueue::cancel_or_ask(Job& job, const std::string& reason) {
  if (is_final(job.record.state)) return 0;
  if (job.record.state != JobState::active) {
    const int64_t before = totals_["cancelled"];
    cancel_now(job, "cancel", reason);
    return totals_["cancelled"] - before;
  }
  if (job.record.cancel_requested) return 0;
  job.record.cancel_requested = true;
  job.record.updated_ms = now();
  event("cancel", job, JobState::active);
  return 1;
}

/// Brings the jobs that wait for `first` in line with its state, then those that wait for them, level by level:
/// success unblocks, another end cancels, and a retry blocks those again that were cancelled because of it.
void MemoryQueue::settle(Job& first) {
  std::deque<Job*> line = {&first};
  for (; !line.empty(); line.pop_front()) {
    Job& parent = *line.front();
    const auto& id = parent.record.spec.id;
    const auto state = parent.record.state;
    const auto children = parent.children;
    for (const auto& name : children) {
      Job& child = jobs_.at(name);
      if (state == JobState::succeeded) {
        parent.children.erase(name);
        --child.pending;
        if (child.record.state == JobState::blocked && child.pending == 0) enter(child, JobState::waiting, "unblock");
      } else if (is_final(state)) {
        if (child.record.state != JobState::blocked) continue;
        const auto reason = fmt::format("job {}, which it needs, ended as {}", id, to_string(state));
        cancel_one(child, "cancel", reason, id);
        line.push_back(&child);
      } else if (child.record.state == JobState::cancelled && child.cancelled_by == id) {
        const auto other = failed_need(child, id);
        if (!other.empty()) {
          child.cancelled_by = other;
          continue;
        }
        child.cancelled_by.clear();
        child.record.reason.clear();
        child.record.finished_ms = 0;
        enter(child, JobState::blocked, "retry");
        line.push_back(&child);
      }
    }
  }
}

/// Another job that `job` needs and that ended without success.
std::string MemoryQueue::failed_need(const Job& job, const std::string& except) {
  for (const auto& need : job.record.spec.after) {
    const auto found = jobs_.find(need);
    if (need == except || found == jobs_.end() || found->second.children.count(job.record.spec.id) == 0) continue;
    const auto state = found->second.record.state;
    if (is_final(state) && state != JobState::succeeded) return need;
  }
  return "";
}

void MemoryQueue::lose(Job& job) {
  ++totals_["lost_leases"];
  const std::string reason = "lease lost by " + job.record.agent;
  if (job.record.cancel_requested) {
    cancel_now(job, "lost", "cancelled by request; " + reason);
    return;
  }
  count_in_a_row(job.record.lost, job.lost_step, job.record.step);
  if (job.record.lost >= settings_.most_losses) {
    job.record.reason = job.record.error =
        fmt::format("lease lost {} times in a row without progress, last by {}", job.record.lost, job.record.agent);
    ++totals_["dead"];
    enter(job, JobState::dead, "lost");
    settle(job);
    return;
  }
  if (!job.stop) job.record.reason = reason;
  enter(job, job.record.lost == 1 ? JobState::waiting : JobState::delayed, "lost");
  if (job.record.lost > 1)
    job.record.due_ms =
        now() + loss_backoff_ms(settings_, job.record.lost, spread(job.record.spec.id, job.record.lost));
}

/// What follows the clock in steps of at most a minute, and a day for each hour of these.
int64_t MemoryQueue::trusted_now(bool write) {
  const int64_t went = std::abs(now() - clock_seen_ms_), reach = 24 * std::min<int64_t>(went, 60'000);
  const int64_t trusted =
      clock_seen_ms_ == 0 ? now() : std::clamp(now(), clock_trusted_ms_ - reach, clock_trusted_ms_ + reach);
  if (write && (clock_seen_ms_ == 0 || went >= 30'000)) {
    clock_seen_ms_ = now();
    clock_trusted_ms_ = trusted;
  }
  return trusted;
}

/// Times that a clock left behind which was ahead: no lease has more than its term, no retry more than the longest
/// back-off, no end lies ahead of what is trusted.
void MemoryQueue::bring_back() {
  for (auto& [id, job] : jobs_) {
    if (job.record.state == JobState::active) job.deadline_ms = std::min(job.deadline_ms, now() + job.term_ms);
    if (job.record.state == JobState::delayed)
      job.record.due_ms =
          std::min(job.record.due_ms, now() + std::max(settings_.backoff_cap, settings_.loss_backoff_cap).count());
    if (is_final(job.record.state)) job.entered_ms = std::min(job.entered_ms, std::max(now(), trusted_now(false)));
    if (job.log_ended_ms) job.log_ended_ms = std::min(*job.log_ended_ms, now());
  }
}

int64_t MemoryQueue::promote() {
  int64_t count = 0;
  for (auto& [id, job] : jobs_) {
    if (job.record.state != JobState::delayed || job.record.due_ms > now()) continue;
    enter(job, JobState::waiting, "promote");
    ++count;
  }
  return count;
}

int64_t MemoryQueue::release_held(const std::string& only_sweep) {
  int64_t count = 0;
  for (auto& [id, job] : jobs_) {
    if (job.record.state != JobState::held || sweep_is(job, "paused")) continue;
    if (!only_sweep.empty() && job.record.spec.sweep != only_sweep) continue;
    enter(job, JobState::waiting, "release");
    ++count;
  }
  return count;
}

int64_t MemoryQueue::forget_old() {
  std::vector<std::string> old;
  const int64_t trusted = std::min(now(), trusted_now(false));
  if (settings_.keep_finished.count() > 0) {
    for (const auto& [id, job] : jobs_)
      if (is_final(job.record.state) && job.entered_ms < trusted - settings_.keep_finished.count()) old.push_back(id);
  }
  const int64_t count = forget(old);
  if (settings_.keep_jobs == 0) return count;
  std::vector<std::tuple<int64_t, JobState, std::string>> finished;
  for (const auto& [id, job] : jobs_)
    if (is_final(job.record.state)) finished.emplace_back(job.entered_ms, job.record.state, id);
  std::sort(finished.begin(), finished.end());
  old.clear();
  for (size_t i = 0; i + static_cast<size_t>(settings_.keep_jobs) < finished.size(); ++i)
    old.push_back(std::get<2>(finished[i]));
  return count + forget(old);
}

int64_t MemoryQueue::forget(const std::vector<std::string>& old) {
  for (const auto& id : old) {
    const auto sweep = jobs_.at(id).record.spec.sweep;
    const auto state = to_string(jobs_.at(id).record.state);
    events_.push_back({"forget", id, state, "", jobs_.at(id).record.fence, jobs_.at(id).record.agent});
    for (const auto& need : jobs_.at(id).record.spec.after)
      if (const auto found = jobs_.find(need); found != jobs_.end()) found->second.children.erase(id);
    for (const auto& store : jobs_.at(id).stores) gone_.push_back({store, id});
    jobs_.erase(id);
    if (sweep.empty()) continue;
    const bool empty = std::none_of(jobs_.begin(), jobs_.end(),
                                    [&](const auto& entry) { return entry.second.record.spec.sweep == sweep; });
    if (empty) sweeps_.erase(sweep);
  }
  return static_cast<int64_t>(old.size());
}

void MemoryQueue::heartbeat_agent(const AgentInfo& agent) {
  check(agent);
  const auto lock = begin("heartbeat_agent");
  touch();
  auto& entry = agents_[agent.name];
  const int64_t age = now() - entry.seen_ms;
  if (agent.leaving) {
    agents_.erase(agent.name);
  } else if (entry.info != agent || age < 0 || age >= kAgentNews) {
    entry.info = agent;
    entry.seen_ms = now();
    if (entry.started_ms == 0) entry.started_ms = now();
  }
  const int64_t trusted = std::min(now(), trusted_now(false));
  std::erase_if(agents_, [&](const auto& entry) { return entry.second.seen_ms < trusted - kDay; });
}

uint64_t MemoryQueue::in_redis(const std::map<std::string, Artifact>& by_role) {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [role, artifact] : by_role)
    bytes[artifact.name] = artifact.store == kRedisStore ? artifact.bytes() : 0;
  uint64_t sum = 0;
  for (const auto& [name, size] : bytes) sum += size;
  return sum;
}

/// What the job then has, by role.
KeptArtifact MemoryQueue::place(Job& job, const Artifact& artifact, const std::vector<std::string>& roles, bool ended,
                                std::map<std::string, Artifact>& by_role) {
  by_role = job.artifacts;
  for (const auto& role : roles) by_role[role] = artifact;
  for (auto& [role, other] : by_role)
    if (other.name == artifact.name) other = artifact;
  if (ended && by_role.contains("best")) by_role["last"] = by_role["best"];
  uint64_t used = 0;
  for (const auto& [id, each] : jobs_) used += in_redis(each.artifacts);
  const auto before = in_redis(job.artifacts), after = in_redis(by_role);
  const auto quota = static_cast<uint64_t>(settings_.artifact_bytes);
  if (artifact.store == kRedisStore && after > before && used - before + after > quota)
    return {.answer = KeptArtifact::Answer::full, .used = used, .quota = quota};
  return {};
}

KeptArtifact MemoryQueue::room_for(const Lease& lease, const Artifact& artifact,
                                   const std::vector<std::string>& roles) {
  const auto lock = begin("room_for");
  touch();
  Job* job = holder(lease);
  if (job == nullptr) return {.answer = KeptArtifact::Answer::lost};
  std::map<std::string, Artifact> by_role;
  return place(*job, artifact, roles, false, by_role);
}

KeptArtifact MemoryQueue::keep(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles,
                               bool ended) {
  artifact_text(artifact);
  const auto lock = begin("keep");
  touch();
  Job* job = holder(lease);
  if (job == nullptr) return {.answer = KeptArtifact::Answer::lost};
  std::map<std::string, Artifact> by_role;
  auto kept = place(*job, artifact, roles, ended, by_role);
  if (kept.answer != KeptArtifact::Answer::kept) return kept;
  std::set<std::string> still;
  for (const auto& [role, other] : by_role) still.insert(other.name);
  std::set<std::string> dropped;
  for (const auto& [role, other] : job->artifacts)
    if (!still.contains(other.name) && other.store != kRedisStore) dropped.insert(other.name);
  if (!still.contains(artifact.name) && artifact.store != kRedisStore) dropped.insert(artifact.name);
  kept.dropped.assign(dropped.begin(), dropped.end());
  if (artifact.store != kRedisStore) job->stores.insert(artifact.store);
  job->artifacts = by_role;
  job->artifact_trouble.clear();
  return kept;
}

void MemoryQueue::note_trouble_of_artifacts(const Lease& lease, const std::string& trouble) {
  const auto lock = begin("note_trouble_of_artifacts");
  touch();
  if (Job* job = holder(lease)) job->artifact_trouble = trouble.substr(0, Limits::kTrouble);
}

JobArtifacts MemoryQueue::artifacts(const std::string& id) {
  const auto lock = begin("artifacts");
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return {};
  return {.by_role = found->second.artifacts, .trouble = found->second.artifact_trouble};
}

std::vector<ForgottenArtifacts> MemoryQueue::forgotten_artifacts() {
  const auto lock = begin("forgotten_artifacts");
  return gone_;
}

void MemoryQueue::removed(const ForgottenArtifacts& artifacts) {
  const auto lock = begin("removed");
  std::erase(gone_, artifacts);
}

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
    const auto& resources = job.record.spec.resources;
    if (job.record.state == JobState::waiting) ++found[{resources.total_cpus(), resources.total_gpus()}];
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
      for (const auto& [name, usual] : Hash{{"ranks", "1"}, {"cpus", "1"}, {"max_attempts", "3"}})
        if (hash.at(name) == usual) hash.erase(name);
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
                       {"preemptions_step", text(job.preemptions_step)},
                       {"format", format_of(spec) > 1 ? text(format_of(spec)) : ""}};
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
    for (const auto& child : job.children) all["job:" + id + ":children"][child] = "member";
    all["ids"][id] = score(0);
    all["state:" + to_string(record.state)][id] = score(static_cast<double>(job.entered_ms));
    if (record.state == JobState::waiting)
      all[fmt::format("waiting:c{}g{}{}", job.cpus(), job.gpus(),
                      format_of(spec) > 1 ? fmt::format("v{}", format_of(spec)) : "")][id] =
          score(static_cast<double>(job.score()));
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
    hash["format"] = text(kSweepFormat);
    hash["created_ms"] = text(sweep.created_ms);
    hash["proposals"] = text(sweep.proposals);
    hash["tracked"] = "1";
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
    all["agent:" + name] = {
        {"host", agent.info.host},       {"version", agent.info.version},  {"pid", text(agent.info.pid)},
        {"cpus", text(agent.info.cpus)}, {"gpus", text(agent.info.gpus)},  {"jobs", text(agent.info.jobs)},
        {"format", text(kSweepFormat)},  {"seen_ms", text(agent.seen_ms)}, {"started_ms", text(agent.started_ms)},
        {"trouble", agent.info.trouble}};
  }
  for (size_t i = 0; i < silences_.size(); ++i)
    all["silences"][fmt::format("{:04}", i)] = fmt::format("{} {}", silences_[i].from, silences_[i].to);
  all["artifacts:use"]["bytes"] = text(used);
  for (const auto& [store, job] : gone_) all["artifacts:gone"][store + " " + job] = "member";
  if (paused_) all["paused"]["value"] = "set";
  all["clock"] = {{"seen", text(clock_seen_ms_)}, {"trusted", text(clock_trusted_ms_)}};
  all["alive_ms"]["value"] = text(alive_ms_);
  all["sequence"]["value"] = text(sequence_);
  for (const auto& [name, count] : totals_) all["totals"][name] = text(count);
  for (auto& [key, hash] : all)
    std::erase_if(hash, [](const auto& entry) { return entry.second.empty() || entry.second == "0"; });
  std::erase_if(all, [](const auto& entry) { return entry.second.empty(); });
  return all;
}

}  // namespace foretime::jobs
