#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Ends in a row after which the job got no further than before: `times` of them, the last one at `at`.
inline void count_in_a_row(int64_t& times, int64_t& at, int64_t step) {
  times = step > at ? 1 : times + 1;
  at = std::max(at, step);
}

/// min(cap, base 2^(failures-1)) (0.5 + jitter / 2), whole milliseconds.
inline int64_t backoff_ms(const QueueSettings& settings, int64_t failures, double jitter) {
  const double longest = std::min(static_cast<double>(settings.backoff_cap.count()),
                                  static_cast<double>(settings.backoff_base.count()) *
                                      std::pow(2.0, static_cast<double>(std::min<int64_t>(failures, 1000) - 1)));
  return static_cast<int64_t>(std::floor(longest * (0.5 + jitter / 2)));
}

/// cap / 2^max(0, most_losses - 1 - losses) (0.5 + jitter / 2), whole milliseconds.
inline int64_t loss_backoff_ms(const QueueSettings& settings, int64_t losses, double jitter) {
  const double longest = static_cast<double>(settings.loss_backoff_cap.count()) /
                         std::pow(2.0, static_cast<double>(std::max<int64_t>(0, settings.most_losses - 1 - losses)));
  return static_cast<int64_t>(std::floor(longest * (0.5 + jitter / 2)));
}

/// The queue as plain structs and linear scans: the slow, obvious reference implementation of RedisQueue, and the
/// executable form of jobs/queue/queue.h and docs/reference/jobs.md. What is not said here is not promised. May be used
/// by several threads.
class MemoryQueue final : public JobQueue {
 public:
  explicit MemoryQueue(QueueSettings settings = {}) : settings_(settings) {}

  /// The clock is the system's until it is set for the first time, then it stands still until it is moved.
  void set_now_ms(int64_t now_ms);
  void advance(Milliseconds duration);
  int64_t now_ms();
  /// Called before each call of an agent, by its name: what it throws takes the place of the call.
  std::function<void(const std::string& call)> before;

  bool create_sweep(const SweepSpec& sweep) override;
  bool submit(const JobSpec& job) override;
  std::optional<Lease> claim(const ClaimRequest& request) override;
  Directive renew(const Lease& lease, Milliseconds term) override;
  Directive report(const Lease& lease, const JobReport& report) override;
  bool propose(const Lease& lease, const Parameters& parameters) override;
  bool finish(const Lease& lease, const JobResult& result, double jitter) override;
  FinishedAndNext finish_and_claim(const Lease& lease, const JobResult& result, double jitter,
                                   const ClaimRequest& request) override;
  CancelOutcome cancel(const std::string& id) override;
  int64_t cancel_sweep(const std::string& sweep) override;
  void retry(const std::string& id) override;
  void set_priority(const std::string& id, int64_t priority) override;
  void pause(const std::string& sweep) override;
  void resume(const std::string& sweep) override;
  ReapCounts reap() override;
  void heartbeat_agent(const AgentInfo& agent) override;
  KeptArtifact may_store(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles) override;
  KeptArtifact keep(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles,
                    bool ended) override;
  void note_trouble_of_artifacts(const Lease& lease, const std::string& trouble) override;
  JobArtifacts artifacts(const std::string& job) override;
  std::vector<ForgottenArtifacts> forgotten_artifacts() override;
  void removed(const ForgottenArtifacts& artifacts) override;
  std::optional<JobRecord> find(const std::string& id) override;
  bool none_in(const std::vector<JobState>& states) override;
  std::map<Demand, int64_t> waiting() override;

  struct Event {
    std::string event, job, from, to;
    int64_t fence = 0;
    std::string agent;
    auto operator<=>(const Event&) const = default;
  };
  std::vector<Event> events();                          // all since ever, oldest first
  std::vector<std::string> log(const std::string& id);  // the last lines, also of a job that has ended
  int64_t proposals(const std::string& sweep);
  std::vector<std::string> changes(const std::string& sweep);  // of trials, for method bayes
  void forget_changes(const std::string& sweep, size_t last);  // as a Redis that lost its last second
  /// Everything that Redis would hold: key without the prefix -> field, member or index -> text. Fields that are empty
  /// or 0 are left out, and so are events, tokens and the hash of totals.
  using Dump = std::map<std::string, std::map<std::string, std::string>>;
  Dump dump();

 private:
  struct Job {
    JobRecord record;
    std::string token, finished_by, cancelled_by;
    int64_t pending = 0, sequence = 0, iteration = 0, exit_code = 0, entered_ms = 0;
    int64_t lost_step = 0, preemptions_step = 0;
    int64_t lost_shared = 0;               // of those lost in a row, how many while other agents were lost
    int64_t term_ms = 0, deadline_ms = 0;  // of the lease
    bool stop = false, graced = false;
    std::set<std::string> children;
    std::set<std::string> users;                // all jobs that ever named this one in `after`
    std::map<std::string, Artifact> artifacts;  // by role
    std::set<std::string> stores;               // of all that it ever had, outside of Redis
    std::string artifact_trouble;
    std::deque<std::string> log, written;  // what Redis keeps; the last lines whatever became of the job
    std::optional<int64_t> log_ended_ms;   // while the log of a job that ended is kept whole
    int64_t cpus() const { return record.spec.resources.total_cpus(); }
    int64_t gpus() const { return record.spec.resources.total_gpus(); }
    int64_t score() const { return -record.spec.priority * (int64_t{1} << 40) + sequence; }
  };
  struct SweepEntry {
    SweepSpec spec;
    std::string state = "running";
    int64_t created_ms = 0, proposals = 0, cancelled_jobs = 0;
    std::vector<std::string> changes;                        // trials to read anew, for method bayes
    std::map<int64_t, std::map<std::string, double>> rungs;  // rung -> job -> objective
  };
  struct Silence {
    int64_t from, to;
  };

  std::unique_lock<std::mutex> begin(const char* call);
  int64_t now() const;
  void touch(bool leasing = false);
  void event(const std::string& name, const Job& job, JobState from);
  void enter(Job& job, JobState state, const std::string& name);
  Job* holder(const Lease& lease);
  Job& known(const std::string& id);
  SweepEntry& known_sweep(const std::string& id);
  bool sweep_is(const Job& job, const std::string& state);
  Lease lease_of(const Job& job) const;
  static Directive directive(const Job& job);
  void cancel_one(Job& job, const std::string& name, const std::string& reason, const std::string& by);
  void cancel_now(Job& job, const std::string& name, const std::string& reason);
  std::string failed_need(const Job& job, const std::string& except);
  int64_t cancel_or_ask(Job& job, const std::string& reason);
  void settle(Job& job);
  void decide_rungs(Job& job, const JobReport& report);
  std::set<std::string> quiet_agents();
  bool note_loss(const Job& job, const std::set<std::string>& quiet);
  void lose(Job& job, const std::set<std::string>& quiet);
  int64_t trusted_now(bool write);
  void bring_back();
  void set_paused(const std::string& sweep, bool paused);
  int64_t promote();
  int64_t release_held(const std::string& only_sweep);
  void settle_down(Job& job);
  void trim_log(Job& job);
  void trim_logs();
  void note_trial(const Job& job);
  static uint64_t in_redis(const std::map<std::string, Artifact>& by_role);
  KeptArtifact place(Job& job, const Artifact& artifact, const std::vector<std::string>& roles, bool ended,
                     std::map<std::string, Artifact>& by_role);
  int64_t forget_old();
  int64_t forget(const std::vector<std::string>& ids);

  std::mutex mutex_;
  QueueSettings settings_;
  bool manual_clock_ = false;
  int64_t manual_now_ms_ = 0, alive_ms_ = 0, sequence_ = 0, clock_seen_ms_ = 0, clock_trusted_ms_ = 0;
  bool paused_ = false;
  std::vector<Silence> silences_;
  struct Loss {
    int64_t deadline_ms;
    std::string agent;
  };
  std::vector<Loss> losses_;  // of the last agents that lost a lease, each one's newest
  std::map<std::string, Job> jobs_;
  std::map<std::string, SweepEntry> sweeps_;
  struct Agent {
    AgentInfo info;
    int64_t started_ms = 0, seen_ms = 0;
  };
  std::map<std::string, Agent> agents_;
  std::vector<Event> events_;
  std::map<std::string, int64_t> totals_;
  std::vector<ForgottenArtifacts> gone_;
};

}  // namespace foretime::jobs
