#include "tests/jobs/queue/memory_queue.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "jobs/error.h"

namespace foretime::jobs {

using Lock = std::lock_guard<std::mutex>;
constexpr size_t kChildren = 1000;  // jobs that may wait for one job
constexpr size_t kLook = 1000;      // waiting jobs that one claim looks at
constexpr int64_t kMoved = 64;      // of these, jobs of paused and cancelled sweeps that it holds or cancels

static void note_objective(JobRecord& record, double value) {
  record.objective = value;
  if (!record.best_objective ||
      (record.spec.maximize ? value > *record.best_objective : value < *record.best_objective))
    record.best_objective = value;
}

bool MemoryQueue::create_sweep(const SweepSpec& sweep) {
  check(sweep);
  const auto lock = begin("create_sweep");
  if (const auto found = sweeps_.find(sweep.id); found != sweeps_.end()) {
    if (found->second.state == "cancelled")
      throw JobRefused("sweep {} was cancelled; change its file or its seed to submit it again", sweep.id);
    found->second.spec.trials = std::max(found->second.spec.trials, sweep.trials);
    return false;
  }
  SweepEntry entry;
  entry.spec = sweep;
  entry.created_ms = now();
  sweeps_[sweep.id] = entry;
  return true;
}

bool MemoryQueue::submit(const JobSpec& spec) {
  check(spec);
  const auto lock = begin("submit");
  if (jobs_.count(spec.id) != 0) return false;
  if (!spec.sweep.empty() && known_sweep(spec.sweep).state == "cancelled")
    throw JobRefused("job {}: its sweep {} was cancelled", spec.id, spec.sweep);
  Job job;
  for (const auto& id : spec.after) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) throw JobRefused("job {}: it needs job {}, which is unknown", spec.id, id);
    const auto state = found->second.record.state;
    if (is_final(state) && state != JobState::succeeded)
      throw JobRefused("job {}: it needs job {}, which ended as {}: retry that one", spec.id, id, to_string(state));
    if (state == JobState::succeeded) continue;
    if (found->second.children.size() >= kChildren)
      throw JobRefused("job {}: it needs job {}, for which {} jobs wait already", spec.id, id, kChildren);
    ++job.pending;
  }
  for (const auto& id : spec.after) {
    auto& dependency = jobs_.at(id);
    if (dependency.record.state != JobState::succeeded) dependency.children.insert(spec.id);
    dependency.users.insert(spec.id);
  }
  job.record.spec = spec;
  job.record.submitted_ms = now();
  job.sequence = ++sequence_;
  auto& stored = jobs_[spec.id] = job;
  stored.record.state = stored.pending > 0 ? JobState::blocked : JobState::waiting;
  stored.entered_ms = stored.record.updated_ms = now();
  events_.push_back({"submit", spec.id, "", to_string(stored.record.state), 0, ""});
  ++totals_["submitted"];
  return true;
}

/// How many ranks a job would get; 0: it does not fit.
static int64_t free_ranks(const Resources& resources, const ClaimRequest& request) {
  const auto hosts = request.free_of_hosts.empty() ? std::vector{request.free_cpus} : request.free_of_hosts;
  int64_t free = 0;
  for (const auto host : hosts) free += host / resources.cpus;
  if (resources.gpus > 0) free = std::min(free, request.free_gpus / resources.gpus);
  if (free < resources.ranks) return 0;
  return std::min(free, resources.elastic() ? resources.most_ranks : resources.ranks);
}

std::optional<Lease> MemoryQueue::claim(const ClaimRequest& request) {
  check(request);
  const auto lock = begin("claim");
  // The answer to this claim was lost: the same lease again, even while the queue is paused.
  for (const auto& [id, job] : jobs_)
    if (job.record.state == JobState::active && job.token == request.token && job.deadline_ms >= now())
      return lease_of(job);
  if (paused_) return std::nullopt;
  promote();
  int64_t after = INT64_MIN, moved = 0;
  for (size_t looked_at = 0; looked_at < kLook; ++looked_at) {
    Job* best = nullptr;
    for (auto& [id, job] : jobs_) {
      if (job.record.state != JobState::waiting || job.score() <= after) continue;
      if (!request.runs(job.record.spec.program) || free_ranks(job.record.spec.resources, request) == 0) continue;
      if (best == nullptr || job.score() < best->score()) best = &job;
    }
    if (best == nullptr) return std::nullopt;
    const bool paused = sweep_is(*best, "paused");
    if (paused || sweep_is(*best, "cancelled")) {
      after = best->score();
      if (moved == kMoved) continue;
      ++moved;
      if (paused) enter(*best, JobState::held, "hold");
      else cancel_now(*best, "cancel", "its sweep was cancelled");
      continue;
    }
    touch(true);
    auto& record = best->record;
    ++record.fence;
    best->token = request.token;
    record.agent = request.agent;
    record.attempt = record.failures + 1;
    record.claimed_ms = now();
    if (const auto& needs = record.spec.resources; needs.elastic()) record.attempt_ranks = free_ranks(needs, request);
    best->term_ms = request.term.count();
    best->deadline_ms = now() + best->term_ms;
    best->graced = false;
    if (!best->stop) record.reason.clear();
    enter(*best, JobState::active, "claim");
    ++totals_["claimed"];
    return lease_of(*best);
  }
  return std::nullopt;
}

Directive MemoryQueue::renew(const Lease& lease, Milliseconds term) {
  const auto lock = begin("renew");
  touch();
  Job* job = holder(lease);
  if (job == nullptr) return Directive::lost;
  job->term_ms = term.count();
  job->deadline_ms = now() + term.count();
  job->graced = false;
  return directive(*job);
}

Directive MemoryQueue::report(const Lease& lease, const JobReport& unbounded) {
  const auto report = bounded(unbounded);
  const auto lock = begin("report");
  touch();
  Job* job = holder(lease);
  if (job == nullptr) return Directive::lost;
  auto& record = job->record;
  record.step = report.step;
  record.total_steps = report.total_steps;
  if (report.loss) record.loss = report.loss;
  record.eta_seconds = report.eta_seconds;
  record.updated_ms = now();
  if (report.iteration > 0) job->iteration = report.iteration;
  if (!report.metrics.empty()) record.metrics = report.metrics;
  if (!report.checkpoint.empty()) record.checkpoint = report.checkpoint;
  if (!report.history.empty()) record.history = report.history;
  if (report.objective) {
    if (std::isfinite(*report.objective)) {
      note_objective(record, *report.objective);
    } else {
      record.objective.reset();
    }
    decide_rungs(*job, report);
  }
  for (const auto& line : report.log_lines) {
    for (auto* log : {&job->log, &job->written}) {
      log->push_back(line);
      if (log->size() > static_cast<size_t>(Limits::kLogLines)) log->pop_front();
    }
    ++record.log_lines;
  }
  return directive(*job);
}

void MemoryQueue::decide_rungs(Job& job, const JobReport& report) {
  if (job.stop || job.record.spec.sweep.empty() || job.record.spec.kind != JobKind::train) return;
  const auto found = sweeps_.find(job.record.spec.sweep);
  if (found == sweeps_.end()) return;
  const auto& spec = found->second.spec;
  const double value = *report.objective;
  const bool finite = std::isfinite(value);
  for (const int64_t rung : spec.halving.rungs) {
    if (rung > report.iteration) continue;
    auto& seen = found->second.rungs[rung];
    if (seen.count(job.record.spec.id) != 0) continue;
    seen[job.record.spec.id] = finite ? value : (spec.maximize ? -INFINITY : INFINITY);
    int64_t better = 0;
    for (const auto& [other, objective] : seen) better += (spec.maximize ? objective > value : objective < value);
    const auto n = static_cast<int64_t>(seen.size());
    const auto go_on =
        std::max<int64_t>(1, static_cast<int64_t>(std::floor(static_cast<double>(n) / spec.halving.eta)));
    if (job.stop || (finite && better < go_on)) continue;
    job.stop = true;
    job.record.reason = finite ? fmt::format("early stopping at rung {}: rank {} of {}", rung, better + 1, n)
                               : fmt::format("early stopping at rung {}: the objective is not a number", rung);
  }
}

bool MemoryQueue::propose(const Lease& lease, const Parameters& parameters) {
  const auto lock = begin("propose");
  touch();
  Job* job = holder(lease);
  if (job == nullptr) return false;
  auto& spec = job->record.spec;
  if (!spec.deferred) return spec.parameters == parameters;
  auto& sweep = known_sweep(spec.sweep);
  ++sweep.proposals;
  sweep.changes.push_back(spec.id);
  spec.deferred = false;
  spec.parameters = parameters;
  return true;
}

bool MemoryQueue::finish(const Lease& lease, const JobResult& unbounded, double jitter) {
  const auto result = bounded(unbounded);
  const auto lock = begin("finish");
  touch();
  const std::string by = fmt::format("{}:{}", lease.fence, lease.token);
  if (const auto found = jobs_.find(lease.job); found != jobs_.end() && found->second.finished_by == by) return true;
  Job* job = holder(lease);
  if (job == nullptr) return false;
  auto& record = job->record;
  job->finished_by = by;
  job->exit_code = result.exit_code;
  record.seconds = result.seconds;
  record.error = result.error;
  if (!result.checkpoint.empty()) record.checkpoint = result.checkpoint == kNoCheckpoint ? "" : result.checkpoint;
  const bool asked = record.cancel_requested;
  switch (result.outcome) {
    case Outcome::succeeded:
    case Outcome::stopped: {
      if (!result.metrics.empty()) record.metrics = result.metrics;
      if (result.objective) note_objective(record, *result.objective);
      ++record.results;
      ++totals_["succeeded"];
      record.stopped = result.outcome == Outcome::stopped;
      if (record.stopped) ++totals_["stopped"];
      if (!record.stopped) record.reason.clear();
      enter(*job, JobState::succeeded, "finish");
      settle(*job);
      break;
    }
    case Outcome::failed:
      record.reason = "failed, and would fail again";
      ++totals_["failed"];
      enter(*job, JobState::failed, "finish");
      settle(*job);
      break;
    case Outcome::cancelled: cancel_now(*job, "finish", "cancelled by request"); break;
    case Outcome::preempted:
      if (asked) {
        cancel_now(*job, "preempt", "cancelled by request");
        break;
      }
      ++totals_["preempted"];
      if (result.unasked) {
        count_in_a_row(record.preemptions, job->preemptions_step, record.step);
        if (record.preemptions >= settings_.most_preemptions) {
          record.reason =
              fmt::format("preempted {} times in a row without progress, last on {}", record.preemptions, record.agent);
          if (record.error.empty()) record.error = record.reason;
          ++totals_["dead"];
          enter(*job, JobState::dead, "preempt");
          settle(*job);
          break;
        }
      }
      if (!job->stop) record.reason = "preempted on " + record.agent;
      enter(*job, result.unasked ? JobState::delayed : JobState::waiting, "preempt");
      if (result.unasked) record.due_ms = now() + backoff_ms(settings_, record.preemptions, jitter);
      break;
    case Outcome::error:
      ++totals_["errors"];
      if (asked) {
        cancel_now(*job, "error", "cancelled by request");
        break;
      }
      ++record.failures;
      if (record.failed_on.empty()) record.failed_on = record.agent;
      if (record.failures >= record.spec.max_attempts) {
        record.reason = fmt::format("failed {} times", record.failures);
        ++totals_["dead"];
        enter(*job, JobState::dead, "error");
        settle(*job);
        break;
      }
      if (!job->stop) record.reason = fmt::format("attempt {} failed", record.attempt);
      enter(*job, JobState::delayed, "error");
      record.due_ms = now() + backoff_ms(settings_, record.failures, jitter);
      break;
  }
  if (is_final(record.state) && !result.history.empty()) record.history = result.history;
  return true;
}

FinishedAndNext MemoryQueue::finish_and_claim(const Lease& lease, const JobResult& result, double jitter,
                                              const ClaimRequest& request) {
  begin("finish_and_claim");
  return JobQueue::finish_and_claim(lease, result, jitter, request);
}

CancelOutcome MemoryQueue::cancel(const std::string& id) {
  Lock lock(mutex_);
  Job& job = known(id);
  if (is_final(job.record.state)) return CancelOutcome::already_final;
  const bool active = job.record.state == JobState::active;
  cancel_or_ask(job, "cancelled by request");
  return active ? CancelOutcome::requested : CancelOutcome::cancelled;
}

int64_t MemoryQueue::cancel_sweep(const std::string& sweep) {
  Lock lock(mutex_);
  auto& entry = known_sweep(sweep);
  entry.state = "cancelled";
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [id, job] : jobs_)
    if (job.record.spec.sweep == sweep) order.emplace_back(job.record.spec.trial, id);
  std::sort(order.rbegin(), order.rend());
  int64_t count = 0;
  for (const auto& [trial, id] : order) count += cancel_or_ask(jobs_.at(id), "its sweep was cancelled");
  entry.cancelled_jobs = count;
  return count;
}

void MemoryQueue::retry(const std::string& id) {
  Lock lock(mutex_);
  Job& job = known(id);
  auto& record = job.record;
  if (!is_final(record.state) || record.state == JobState::succeeded)
    throw JobRefused("job {} is {}: only failed, dead and cancelled jobs can be tried again", id,
                     to_string(record.state));
  if (sweep_is(job, "cancelled")) throw JobRefused("job {}: its sweep {} was cancelled", id, record.spec.sweep);
  int64_t still_needed = 0;
  for (const auto& need : record.spec.after) {
    const auto found = jobs_.find(need);
    if (found == jobs_.end() || found->second.children.count(id) == 0) continue;
    const auto state = found->second.record.state;
    if (is_final(state) && state != JobState::succeeded)
      throw JobRefused("job {}: it needs job {}, which ended as {}: retry that one", id, need, to_string(state));
    ++still_needed;
  }
  if (still_needed < job.pending) throw JobRefused("job {}: it needs a job that never succeeded and was forgotten", id);
  const auto& after = record.spec.after;
  if (!after.empty() && record.spec.kind != JobKind::train && jobs_.count(after.front()) == 0)
    throw JobRefused("job {}: it acts on job {}, which was forgotten: submit that one again", id, after.front());
  for (const auto& need : after)
    if (const auto found = jobs_.find(need); found != jobs_.end()) found->second.users.insert(id);
  record.failures = record.lost = record.preemptions = 0;
  job.lost_step = job.lost_shared = job.preemptions_step = 0;
  record.failed_on.clear();
  record.cancel_requested = false;
  record.reason.clear();
  record.error.clear();
  record.finished_ms = 0;
  job.cancelled_by.clear();
  job.exit_code = 0;
  ++totals_["retried"];
  enter(job, job.pending > 0 ? JobState::blocked : JobState::waiting, "retry");
  settle(job);
}

void MemoryQueue::set_priority(const std::string& id, int64_t priority) {
  if (std::abs(priority) > Limits::kPriority)
    throw JobRefused("job {}: priority {}, expected {} to {}", id, priority, -Limits::kPriority, Limits::kPriority);
  Lock lock(mutex_);
  Job& job = known(id);
  if (is_final(job.record.state))
    throw JobRefused("job {} has ended as {}: its priority means nothing", id, to_string(job.record.state));
  job.record.spec.priority = priority;
}

void MemoryQueue::set_paused(const std::string& sweep, bool paused) {
  Lock lock(mutex_);
  if (sweep.empty()) {
    paused_ = paused;
    return;
  }
  auto& entry = known_sweep(sweep);
  if (entry.state == "cancelled") throw JobRefused("sweep {} was cancelled", sweep);
  entry.state = paused ? "paused" : "running";
  if (!paused) release_held(sweep);
}

void MemoryQueue::pause(const std::string& sweep) { set_paused(sweep, true); }
void MemoryQueue::resume(const std::string& sweep) { set_paused(sweep, false); }

ReapCounts MemoryQueue::reap() {
  const auto lock = begin("reap");
  touch();
  trusted_now(
      std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return is_final(job.second.record.state); }));
  bring_back();
  ReapCounts counts;
  std::vector<std::pair<int64_t, std::string>> expired;
  for (const auto& [id, job] : jobs_)
    if (job.record.state == JobState::active && job.deadline_ms < now()) expired.emplace_back(job.deadline_ms, id);
  std::sort(expired.begin(), expired.end());
  const auto quiet = quiet_agents();
  for (const auto& [deadline, id] : expired) {
    Job& job = jobs_.at(id);
    // Nobody could renew while Redis was away: once, the lease gets another term from the end of the silence.
    const bool silent = std::any_of(silences_.begin(), silences_.end(), [&](const Silence& silence) {
      return silence.from <= job.deadline_ms && job.deadline_ms <= silence.to &&
             2 * (silence.to - silence.from) > job.term_ms;
    });
    if (silent && !job.graced) {
      job.graced = true;
      job.deadline_ms = now() + job.term_ms;
      continue;
    }
    lose(job, quiet);
    ++counts.lost_leases;
  }
  counts.promoted = promote();
  counts.released = release_held("");
  trim_logs();
  counts.expired = forget_old();
  counts.agents = std::count_if(agents_.begin(), agents_.end(),
                                [this](const auto& agent) { return agent.second.seen_ms >= now() - 300'000; });
  return counts;
}

}  // namespace foretime::jobs
