#pragma once

#include <chrono>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jobs/queue/artifact.h"
#include "jobs/queue/job.h"

/// Bounds of what goes into Redis (Limits in jobs/queue/job.h). What people submit is refused when it is too large.
/// What agents report is cut, because a result must never be lost over a long error message.
namespace foretime::jobs {

using Milliseconds = std::chrono::milliseconds;

struct ClaimRequest {
  std::string agent{};
  std::string token{};  // fresh random text for each claim; the same again after a lost answer gives the same lease
  int64_t free_cpus = 1;
  int64_t free_gpus = 0;
  Milliseconds term{30000};
  /// The free CPUs of each host of an agent with several hosts; they add up to free_cpus. A rank is on one host.
  std::vector<int64_t> free_of_hosts{};
  /// Set if the agent runs programs of jobs (JobSpec::program), except those whose keys are in lacking_programs.
  bool runs_programs = false;
  std::vector<std::string> lacking_programs{};
  /// Returns whether a job with this program may be claimed; empty: a job that runs foretime.
  bool runs(const std::string& program) const;
};

/// Early stopping of a sweep: asynchronous successive halving (Li et al. 2018, "A system for massively parallel
/// hyperparameter tuning", stopping variant). At each rung, which is a number of evaluations, a trial continues while
/// its objective is among the best max(1, n / eta) of the n values seen at that rung so far.
struct HalvingRule {
  std::vector<int64_t> rungs{};  // rising
  double eta = 3;
  bool enabled() const { return !rungs.empty(); }
  bool operator==(const HalvingRule&) const = default;
};

struct SweepSpec {
  std::string id{};  // 16 hexadecimal digits, of the expanded sweep
  std::string name{};
  std::string method{};  // grid | random | bayes
  /// The search space as JSON, for whoever decides deferred parameters (jobs/sweep/search_space.h).
  std::string definition{};
  std::string settings{};  // YAML, of jobs whose own are kSweepSettings
  std::string metric{};
  bool maximize = true;
  int64_t trials = 0;
  uint64_t seed = 1;
  HalvingRule halving{};
  bool operator==(const SweepSpec&) const = default;
};

struct ReapCounts {
  int64_t lost_leases = 0, orphans = 0;             // leases that ran out; active jobs that had no lease
  int64_t promoted = 0, released = 0, expired = 0;  // retries that were due; jobs of resumed sweeps; forgotten jobs
  bool more = false;                                // a batch was full: call again
  int64_t agents = 0;                               // agents that sent a heartbeat within five minutes
};

/// An agent's description of itself, which `foretime status` and the board show.
struct AgentInfo {
  std::string name{}, host{}, version{};
  int64_t pid = 0, cpus = 0, gpus = 0, jobs = 0;  // process number; CPUs and GPUs for jobs; running jobs
  bool leaving = false;                           // forget this agent
  std::string trouble{};       // reason why it claims nothing, at most Limits::kTrouble bytes; empty: it claims
  bool runs_programs = false;  // true if it runs jobs with a JobSpec::program
  bool operator==(const AgentInfo&) const = default;
};

/// The answers to `finish` and to the claim after it.
struct FinishedAndNext {
  bool finished = false;
  std::optional<Lease> next{};
};

enum class CancelOutcome { cancelled, requested, already_final };

/// The CPUs and GPUs of all ranks of a job, and the program that it runs (JobSpec::program).
struct Demand {
  int64_t cpus = 0, gpus = 0;
  std::string program{};
  auto operator<=>(const Demand&) const = default;
};

/// Tells when jobs come to wait, so that idle agents need not ask all the time. It may miss any of them: who listens
/// asks once after it began, and now and then all the same.
class WakeUps {
 public:
  virtual ~WakeUps() = default;
  /// Returns a descriptor that is readable when `take` may have something to say; -1: there is none.
  virtual int descriptor() const = 0;
  /// Returns whether any came since the last call. Does not wait. Throws RedisUnavailable, after which it is of no more
  /// use.
  virtual bool take() = 0;
};

/// The facts that show whether the store of a queue still holds all that was written.
struct StoreState {
  std::string identity{};                 // the queue's identity (RedisQueue::identity); empty: it has none
  std::string eviction_policy{};          // Redis' maxmemory-policy; empty: not known
  std::optional<int64_t> evicted_keys{};  // keys evicted since the start of Redis; empty: not known
};

/// Jobs wait, are leased to one agent, then finish or wait again. Each call is one atomic transition; time is the
/// queue's own, never the caller's. Throws RedisUnavailable when it cannot be reached (the transition may then have
/// happened or not; each call can be repeated safely), RedisRefused, errors of check(), and JobRefused as said.
class JobQueue {
 public:
  virtual ~JobQueue() = default;

  /// Adds a sweep. False: one of that id is there already, and is left as it is but for a larger number of trials.
  /// Throws JobRefused where that was cancelled.
  virtual bool create_sweep(const SweepSpec& sweep) = 0;
  /// Adds a job. False: one of that id is there already, whatever its state. Throws JobRefused where a job in `after`
  /// is unknown, ended without success or has 1000 jobs waiting for it, and where the sweep is unknown or cancelled.
  virtual bool submit(const JobSpec& job) = 0;
  /// Submits one after the other, with what `submit` says of each; where one is refused, those before it stay and some
  /// after it may have been added. Many at once are far faster than single calls.
  virtual std::vector<bool> submit_all(std::span<const JobSpec> jobs) {
    std::vector<bool> added;
    for (const auto& job : jobs) added.push_back(submit(job));
    return added;
  }

  /// Leases the first waiting job, by priority and then by age, that fits the free CPUs and GPUs and whose program the
  /// agent runs. An elastic one fits where the least of its ranks do, and takes as many as fit. Promotes retries that
  /// are due. Empty when there is none, the queue is paused, or so many jobs of paused sweeps and damaged records
  /// precede it that another claim must continue: WakeUps then say so.
  virtual std::optional<Lease> claim(const ClaimRequest& request) = 0;
  /// Moves the lease's deadline to `term` from now, also after the deadline has passed. If reap() has already taken the
  /// lease away, any call with the lease restores it, unless another agent has claimed the job.
  virtual Directive renew(const Lease& lease, Milliseconds term) = 0;
  /// Writes progress; where the report carries an objective at a new rung, decides whether the trial continues. A trial
  /// that was told to stop is told so again at each report.
  virtual Directive report(const Lease& lease, const JobReport& report) = 0;
  /// Fixes deferred parameters. False: the lease was lost, or others are fixed already, which stand and come with the
  /// lease. Agents decide side by side: each knows what was fixed when it read (jobs/sweep/proposer.h).
  virtual bool propose(const Lease& lease, const Parameters& parameters) = 0;
  /// Ends the attempt; writes the result for succeeded and stopped. `jitter` in [0, 1) spreads retries:
  /// min(cap, base 2^(failures-1)) (0.5 + jitter / 2). False: the lease was lost and nothing was written. True again
  /// when the same lease repeats the same call.
  virtual bool finish(const Lease& lease, const JobResult& result, double jitter) = 0;

  /// Calls `finish`, then `claim`, whatever came of the first: what an agent does whose slot becomes free. May be
  /// repeated as either may.
  virtual FinishedAndNext finish_and_claim(const Lease& lease, const JobResult& result, double jitter,
                                           const ClaimRequest& request) {
    return {finish(lease, result, jitter), claim(request)};
  }

  /// Cancels a job, or asks the agent of an active one to stop (requested); a job that has ended stays as it is
  /// (already_final). Throws JobRefused where the id is unknown.
  virtual CancelOutcome cancel(const std::string& id) = 0;
  /// Cancels every job that is not final, and refuses new ones. Returns how many were cancelled or asked to stop.
  /// Throws JobRefused where the sweep is unknown.
  virtual int64_t cancel_sweep(const std::string& sweep) = 0;
  /// A failed, dead or cancelled job waits again, with a fresh count of failures; jobs that were cancelled because of
  /// it are blocked again. Throws JobRefused where it is unknown or in another state, where its sweep is
  /// cancelled, and where a job that it needs ended without success or was forgotten.
  virtual void retry(const std::string& id) = 0;
  /// Throws JobRefused where the job is unknown or has ended, and for a priority beyond Limits::kPriority.
  virtual void set_priority(const std::string& id, int64_t priority) = 0;
  /// Pauses a sweep, or with an empty one the whole queue: active jobs continue, and nothing more is claimed.
  /// Throws JobRefused, as resume() does, where the sweep is unknown or cancelled.
  virtual void pause(const std::string& sweep) = 0;
  virtual void resume(const std::string& sweep) = 0;  // ends a pause

  /// Repairs in bounded batches. Anybody may call it at any time.
  /// - Jobs with an expired lease, and active ones without a lease, wait again: at once after the first loss, and after
  ///   n losses in a row within loss_backoff_cap / 2^(most_losses - 1 - n), at the earliest after half of it. After
  ///   `most_losses` in a row they are dead; losses that other agents shared do not count, up to ten times as many.
  /// - Retries that are due, and jobs of resumed sweeps, wait again.
  /// - Cancellations of sweeps continue.
  /// - Finished jobs past their time to live are forgotten.
  virtual ReapCounts reap() = 0;
  /// Keeps the register of agents, which decides nothing. Agents silent for a day are forgotten.
  virtual void heartbeat_agent(const AgentInfo& agent) = 0;

  /// Returns whether an artifact of the lease's attempt may be stored (kept), or why not (lost, full). Changes and
  /// reserves nothing: keep() follows when its files are stored. `roles` are what it will be (kArtifactRoles).
  virtual KeptArtifact may_store(const Lease& lease, const Artifact& artifact,
                                 const std::vector<std::string>& roles) = 0;
  /// Notes that all files of an artifact are stored, and gives it these roles; what then has none is dropped. `ended`:
  /// the attempt has succeeded, and what was only there to continue from is dropped too. May be repeated.
  virtual KeptArtifact keep(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles,
                            bool ended) = 0;
  /// Notes why the newest checkpoint is not stored.
  virtual void note_trouble_of_artifacts(const Lease& lease, const std::string& trouble) = 0;
  /// Returns what is stored of a job.
  virtual JobArtifacts artifacts(const std::string& job) = 0;
  /// Returns some artifacts outside of Redis whose jobs have been forgotten, until `removed` is called for them.
  virtual std::vector<ForgottenArtifacts> forgotten_artifacts() = 0;
  virtual void removed(const ForgottenArtifacts& artifacts) = 0;  // forgets an entry of forgotten_artifacts()

  /// Returns the record of a job, with settings that may be kSweepSettings; empty if unknown. Throws DamagedRecord.
  virtual std::optional<JobRecord> find(const std::string& id) = 0;
  /// Returns what tells when jobs come to wait; empty where this queue cannot. Throws RedisUnavailable and
  /// RedisRefused.
  virtual std::unique_ptr<WakeUps> wake_ups() { return nullptr; }
  /// Returns the state of the store; empty where this queue cannot tell. Throws RedisUnavailable and RedisRefused.
  virtual std::optional<StoreState> store_state() { return std::nullopt; }
  /// Returns nothing, or what will soon keep the queue from taking jobs: memory that is nearly full.
  virtual std::string warning() { return ""; }
  /// Returns whether no job is in any of `states`, of which there is at least one.
  virtual bool none_in(const std::vector<JobState>& states) = 0;
  /// Returns how many jobs wait, by what they need in all.
  virtual std::map<Demand, int64_t> waiting() = 0;
};

/// The rules for finished jobs: how long and how many are kept (0: for ever, all), and the most bytes of artifacts in
/// Redis. An empty member sets no rule.
struct Retention {
  std::optional<Milliseconds> time{};
  std::optional<int64_t> jobs{};
  std::optional<int64_t> artifact_bytes{};
  bool operator==(const Retention&) const = default;
};

/// The version of a queue's keys and records, which is in {prefix}:settings, field protocol. A program neither reads
/// nor writes a queue of another one.
inline constexpr int64_t kQueueProtocol = 1;

struct QueueSettings {
  std::string prefix = "foretime";  // every key starts with {prefix}, which is also the cluster's hash tag
  Milliseconds backoff_base{5000};  // wait before the second attempt
  Milliseconds backoff_cap{600000};
  Milliseconds loss_backoff_cap{3600000};               // wait before the last attempt that most_losses allows
  Milliseconds keep_finished{30LL * 24 * 3600 * 1000};  // 0: for ever; the queue's own setting wins, where it has one
  int64_t keep_jobs = 200'000;                          // finished ones, the newest; 0: all; likewise
  int64_t most_losses = 10;       // leases lost in a row, without progress in between, after which a job is dead
  int64_t most_preemptions = 20;  // preemptions in a row that nobody requested, after which a job is dead
  int64_t events = 10000;         // transitions kept in the event stream
  int64_t artifact_bytes = int64_t{1} << 30;  // artifacts of all jobs in Redis; a setting of the queue overrides it
};

/// Throws SweepError naming job, field, what was found and what was expected.
void check(const JobSpec& job);
void check(const SweepSpec& sweep);
/// Throws JobsError.
void check(const ClaimRequest& request);
void check(const AgentInfo& agent);

/// Leaves out metrics that are not finite and a history above Limits::kHistory, cuts long lines, and makes a remaining
/// time that is not finite -1. Throws JobsError for metrics or a checkpoint path above their limits.
JobReport bounded(JobReport report);
/// Does the same for a result. Leaves out an objective that is not finite, cuts a long error, and makes a duration that
/// is not finite 0.
JobResult bounded(JobResult result);

/// Returns whether it can be JobSpec::program: 1 to 16 lower-case hexadecimal digits.
bool is_program_key(const std::string& text);
/// Returns whether it can be the id of a job or a sweep: 1 to 64 letters, digits, - and _.
bool is_id(const std::string& text);
/// Returns a number as Redis holds it: the shortest text that reads back as the same double.
std::string number_text(double value);

}  // namespace foretime::jobs
