#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/queue/queue.h"
#include "jobs/redis/redis_client.h"

namespace foretime::jobs {

struct SweepRecord {
  SweepSpec spec;
  std::string state{};  // running | paused | cancelled
  int64_t created_ms = 0;
  int64_t proposals = 0;               // deferred parameters decided so far
  std::map<JobState, int64_t> jobs{};  // counts, of every state
  int64_t unreadable = 0;              // jobs whose state cannot be read
  /// Fields that are damaged, and what is wrong with each; "record" for a fault of no single field. The other members
  /// are then what could be read, or defaults.
  std::map<std::string, std::string> damage{};
};

/// Trials of a Bayesian search whose observation changed: they were decided, ended, or wait again.
struct TrialChanges {
  int64_t created_ms = 0;          // creation time of the sweep; 0: unknown
  std::vector<std::string> ids{};  // oldest change first; a trial may come more than once
};

struct AgentRecord {
  std::string name{}, host{}, version{};
  int64_t seen_ms = 0, started_ms = 0, pid = 0, cpus = 0, gpus = 0, jobs = 0;
  bool runs_programs = false;  // whether it runs jobs with a JobSpec::program
  std::string unreadable{};    // empty, or why its record cannot be read; the numbers are then 0
  std::string trouble{};       // reason why it claims nothing; empty: it claims
};

struct QueueStatistics {
  int64_t now_ms = 0;                       // the time on Redis' clock
  std::map<JobState, int64_t> jobs{};       // counts, of every state
  std::map<std::string, int64_t> totals{};  // submitted, claimed, succeeded, …, lost_leases, refused; since ever
  /// Counts per minute over the last five minutes of the event stream, or over its length if it was trimmed to less.
  /// `stopped` is missing: the stream does not distinguish it from succeeded.
  std::map<std::string, double> per_minute{};
  int64_t oldest_waiting_ms = 0;     // age; 0: none waits
  int64_t waiting_for_programs = 0;  // waiting jobs that run a program of their own (JobSpec::program)
  bool paused = false;
  std::optional<int64_t> keep_finished_ms{};  // 0: for ever; empty: no agent has said yet
  std::optional<int64_t> keep_jobs{};         // ended jobs that are kept; 0: all; empty: no agent has said yet
  int64_t artifact_bytes = 0;                 // bytes of artifacts in Redis
  std::optional<int64_t> artifact_quota{};    // most of artifact_bytes; empty: the agents' default
  std::vector<AgentRecord> agents{};          // the kMostAgents heard of last, by name
  std::vector<std::string> unreadable{};      // key, field and found value of each number that is missing above
};

/// Reads what the queue's scripts write, with read-only commands, so that a user with read rights can watch. Everything
/// read is checked against Limits. One damaged item never hides others: a job, a sweep, an agent or statistics whose
/// record is damaged comes with a mark (`unreadable`, `damage`), and entries of lists
/// that are no ids, and lists of another type than documented, are left out and named by `take_damage`. Answers about
/// many keys come in batches, so a job may move or be forgotten in between; one that is gone is left out.
class QueueReader {
 public:
  static constexpr int64_t kMostAgents = 1000;

  /// `client` must outlive the reader. Talks to Redis at the first call. Each call throws JobRefused where the queue is
  /// of another protocol (kQueueProtocol).
  QueueReader(RedisClient& client, QueueSettings settings);

  /// Returns the full id for a unique prefix of it, which may be all of it. Throws JobRefused where it is unknown or
  /// ambiguous.
  std::string resolve_job(const std::string& prefix);
  std::string resolve_sweep(const std::string& prefix);
  /// Returns whether it names a sweep rather than a job; false where it names neither. Throws JobRefused where it could
  /// be both.
  bool is_sweep(const std::string& prefix);
  /// Returns what was left out of lists since the last call: key, what was found and what was expected.
  std::vector<std::string> take_damage() { return std::exchange(damage_, {}); }
  /// Returns the record of a job, with the settings of its sweep if it has no own ones.
  std::optional<JobRecord> job(const std::string& id);
  /// Returns what is stored of a job.
  JobArtifacts artifacts(const std::string& id);
  /// Returns records in the order of `ids`.
  std::vector<JobRecord> jobs(const std::vector<std::string>& ids);
  /// Returns the ids of jobs in that state, the newest first.
  std::vector<std::string> ids_in(JobState state, int64_t limit);
  /// Returns the ids of a sweep's jobs, by trial.
  std::vector<std::string> ids_of_sweep(const std::string& sweep);
  /// Returns the ids of sweeps, the newest first.
  std::vector<std::string> sweeps(int64_t limit);
  /// Returns the record of a sweep without counts of its jobs, which `states` tells.
  std::optional<SweepRecord> sweep(const std::string& id);
  /// Returns the changes of a Bayesian sweep from number `from` on.
  TrialChanges changes(const std::string& sweep, int64_t from);
  /// Reads fields of many jobs as the queue keeps them, without a record of each: `take` gets the place in `ids` and
  /// the texts, which live as long as the call. Jobs that are gone, or whose key is of another type, are left out.
  using Take = std::function<void(size_t index, const std::vector<std::string_view>& values)>;
  void scan(const std::vector<std::string>& ids, const std::vector<std::string>& fields, const Take& take);
  /// Returns states in the order of `ids`; empty for jobs that are gone, and for those whose state cannot be read,
  /// which are counted.
  std::vector<std::optional<JobState>> states(const std::vector<std::string>& ids, int64_t& unreadable);
  /// Returns what leaderboards and searches need of trials: kind, trial, parameters, state and objectives.
  std::vector<JobRecord> trials(const std::vector<std::string>& ids);
  /// Returns the last lines of a job's log, at most Limits::kLogLines, and sets `total` to how many were ever written.
  std::vector<std::string> log(const std::string& id, int64_t& total);
  QueueStatistics statistics();
  /// Returns RedisQueue::identity; empty where the queue has none yet.
  std::string identity();

 private:
  static constexpr size_t kHashesInPipeline = 64;  // each as large as its Limits
  using Arguments = RedisClient::Arguments;
  std::string key(const std::string& rest) const { return prefix_ + rest; }
  /// Runs a pipeline. Throws JobsError naming a key of another type than documented, or too large to be read.
  /// Into `wrong`, where given, go the messages instead, by the index of the call, whose reply is then null.
  std::vector<Reply> ask(const std::vector<Arguments>& calls, std::map<size_t, std::string>* wrong = nullptr);
  /// Asks for the key `kind` + name of each of `names`, as `command` (HGETALL, or HGET and a field behind the key)
  /// says, in batches. Where `mark` is given, it is called for keys of another type.
  void ask_each(const std::string& kind, const std::vector<std::string>& names, const Arguments& command,
                const std::function<void(const std::string& name, const redisReply& reply)>& take,
                const std::function<void(const std::string& name, const std::string& why)>& mark = nullptr);
  /// Throws JobRefused where the queue is of another protocol.
  void expect_protocol();
  void note_damage(std::string what);
  /// Returns those of a key's members that are ids, and notes the others as damage.
  std::vector<std::string> only_ids(const std::string& key, std::vector<std::string> members);
  /// Returns the ids of a sorted set, in the order of `command` (ZRANGE or ZREVRANGE).
  std::vector<std::string> ids(const std::string& command, const std::string& key, int64_t limit);
  /// Return a few jobs, or sweeps, whose ids begin so.
  std::vector<std::string> jobs_like(const std::string& prefix);
  std::vector<std::string> sweeps_like(const std::string& prefix);
  static std::map<JobState, int64_t> zero_counts();
  /// Sets JobRecord::overdue_ms.
  void find_lost_leases(std::vector<JobRecord>& records);
  void read_rates(QueueStatistics& statistics);
  int64_t count_waiting_for_programs();
  void read_agents(std::vector<std::string> names, QueueStatistics& statistics);

  RedisClient& client_;
  QueueSettings settings_;
  std::string prefix_;  // {prefix}:
  std::vector<std::string> damage_;
  bool knows_protocol_ = false;
};

/// Returns the statistics in Prometheus' text exposition format, version 0.0.4.
std::string to_prometheus(const QueueStatistics& statistics);

}  // namespace foretime::jobs
