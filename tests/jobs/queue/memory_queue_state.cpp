#include <algorithm>
#include <chrono>
#include <tuple>

#include <fmt/format.h>

#include "jobs/error.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/queue.h"
#include "tests/jobs/queue/memory_queue.h"

/// The steps that the transitions of MemoryQueue share.
namespace foretime::jobs {
namespace {

constexpr int64_t kDay = 24LL * 3600 * 1000;
constexpr int64_t kShortestSilence = 1000;  // shorter ones are never told from an idle queue
constexpr int64_t kAliveNews = 250;         // after so long it is written down again that agents reach the queue
constexpr size_t kSilences = 8;
constexpr size_t kLosses = 8;
constexpr size_t kLeasesSeen = 64;      // leases that a reaping looks at for agents that are gone
constexpr int64_t kLogLingers = 60000;  // the log of a job is kept whole for so long after its end
constexpr size_t kWholeLogs = 1000;     // of so many jobs
constexpr int64_t kAgentNews = 30000;   // an agent that says nothing new is written down again after so long

/// In [0, 1): jobs that were lost together must part.
double spread(const std::string& id, int64_t times) {
  constexpr int64_t kPrime = 67108859;
  int64_t sum = times;
  for (const char c : id) sum = (sum * 251 + static_cast<unsigned char>(c)) % kPrime;
  for (int i = 0; i < 3; ++i) sum = (sum * sum + 12345) % kPrime;
  return static_cast<double>(sum) / kPrime;
}

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
  job.entered_ms = is_final(state) ? std::max(now(), trusted_now(true)) : now();
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
    record.loss.reset();
    job.exit_code = 0;
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
      job.lost_shared = std::min(job.lost_shared, job.record.lost);
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
          .checkpoint = record.checkpoint,
          .history = record.history};
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

/// Who holds leases that were not renewed for half of their term.
std::set<std::string> MemoryQueue::quiet_agents() {
  std::vector<std::pair<int64_t, std::string>> leases;
  for (const auto& [id, job] : jobs_)
    if (job.record.state == JobState::active) leases.emplace_back(job.deadline_ms, id);
  std::sort(leases.begin(), leases.end());
  if (leases.size() > kLeasesSeen) leases.resize(kLeasesSeen);
  std::set<std::string> quiet;
  for (const auto& [deadline, id] : leases) {
    const auto& job = jobs_.at(id);
    if (2 * (deadline - now()) < job.term_ms) quiet.insert(job.record.agent);
  }
  return quiet;
}

/// Remembers that a lease was lost, and says whether other agents fell silent with its holder: what takes several at
/// once is not the doing of one job.
bool MemoryQueue::note_loss(const Job& job, const std::set<std::string>& quiet) {
  const auto& agent = job.record.agent;
  bool shared = quiet.size() > quiet.count(agent);
  for (const auto& loss : losses_)
    shared = shared || (loss.agent != agent && std::abs(loss.deadline_ms - job.deadline_ms) <= job.term_ms);
  if (!losses_.empty() && losses_.back().agent == agent) losses_.pop_back();
  losses_.push_back({job.deadline_ms, agent});
  if (losses_.size() > kLosses) losses_.erase(losses_.begin());
  return shared;
}

void MemoryQueue::lose(Job& job, const std::set<std::string>& quiet) {
  ++totals_["lost_leases"];
  const bool shared = note_loss(job, quiet);
  const std::string reason = "lease lost by " + job.record.agent;
  if (job.record.cancel_requested) {
    cancel_now(job, "lost", "cancelled by request; " + reason);
    return;
  }
  count_in_a_row(job.record.lost, job.lost_step, job.record.step);
  job.lost_shared = (job.record.lost > 1 ? job.lost_shared : 0) + (shared ? 1 : 0);
  if (job.record.lost - job.lost_shared >= settings_.most_losses || job.record.lost >= 10 * settings_.most_losses) {
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

/// What a job that has not ended needs stays, and is then as old as what ends now.
int64_t MemoryQueue::forget(const std::vector<std::string>& old) {
  int64_t count = 0;
  for (const auto& id : old) {
    auto& job = jobs_.at(id);
    if (std::any_of(job.users.begin(), job.users.end(), [this](const auto& user) {
          const auto found = jobs_.find(user);
          return found != jobs_.end() && !is_final(found->second.record.state);
        })) {
      job.entered_ms = std::max(now(), trusted_now(false));
      continue;
    }
    ++count;
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
  return count;
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

}  // namespace foretime::jobs
