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
  std::string state{};                 // running, paused, cancelled, or unreadable
  int64_t created_ms = 0;              // milliseconds since 1970
  int64_t proposals = 0;               // number of trials whose deferred parameters are decided
  std::map<JobState, int64_t> jobs{};  // number of jobs in each state
  int64_t unreadable = 0;              // number of jobs whose state cannot be read
  /// A message for each damaged field, by its name; "record" for a fault of no single field. The other members then
  /// have the readable values, or defaults.
  std::map<std::string, std::string> damage{};
};

/// Lists trials of a Bayesian search that were decided, ended, or wait again.
struct TrialChanges {
  int64_t created_ms = 0;          // creation time of the sweep; 0: unknown
  std::vector<std::string> ids{};  // an entry for each change, oldest first; a trial may come more than once
};

struct AgentRecord {
  std::string name{}, host{}, version{};
  int64_t seen_ms = 0, started_ms = 0;            // times of the newest and the first heartbeat, ms since 1970
  int64_t pid = 0, cpus = 0, gpus = 0, jobs = 0;  // process number; CPUs and GPUs for jobs; running jobs
  bool runs_programs = false;                     // true if the agent runs jobs with a JobSpec::program
  std::string unreadable{};  // reason why the record cannot be read (numbers are then 0); empty: it was
  std::string trouble{};     // reason why the agent claims nothing; empty: it claims
};

struct QueueStatistics {
  int64_t now_ms = 0;                       // time on Redis' clock, milliseconds since 1970
  std::map<JobState, int64_t> jobs{};       // number of jobs in each state
  std::map<std::string, int64_t> totals{};  // number of all transitions so far, by name: submitted, claimed, …
  /// Counts per minute by the same names, over the last five minutes, or since the oldest event that Redis still has.
  /// `stopped` is missing, since events do not distinguish it from succeeded.
  std::map<std::string, double> per_minute{};
  int64_t oldest_waiting_ms = 0;              // time that the oldest waiting job waits; 0: none waits
  int64_t waiting_for_programs = 0;           // number of waiting jobs with a JobSpec::program
  bool paused = false;                        // true if the whole queue is paused
  std::optional<int64_t> keep_finished_ms{};  // time that ended jobs are kept; 0: for ever; empty: not set in the queue
  std::optional<int64_t> keep_jobs{};         // number of ended jobs that are kept; 0: all; empty: not set in the queue
  int64_t artifact_bytes = 0;                 // bytes of artifacts in Redis
  std::optional<int64_t> artifact_quota{};    // limit of artifact_bytes; empty: not set in the queue
  std::vector<AgentRecord> agents{};          // the kMostAgents agents with the newest heartbeats, sorted by name
  std::vector<std::string> unreadable{};      // a message for each value above that cannot be read
};

/// Reads the queue with read-only commands, so that a Redis user with read rights suffices. All data are checked
/// against Limits. A damaged item never hides others: a damaged job, sweep, agent or statistic is returned with
/// `unreadable` or `damage`. Entries of lists that are no ids, and lists of a wrong type, are left out and named by
/// take_damage(). Many keys are read in batches; jobs that are gone by then are left out.
class QueueReader {
 public:
  static constexpr int64_t kMostAgents = 1000;

  /// `client` must outlive the reader. Connects at the first call. Each call throws RedisUnavailable, RedisRefused, and
  /// JobRefused if the queue has another protocol (kQueueProtocol).
  QueueReader(RedisClient& client, QueueSettings settings);

  /// Returns the only id of a job that begins with `prefix`, or equals it. Throws JobUnknown for none, JobRefused for
  /// several.
  std::string resolve_job(const std::string& prefix);
  /// Returns the only id of a sweep that begins with `prefix`, or equals it. Throws JobUnknown for none, JobRefused for
  /// several.
  std::string resolve_sweep(const std::string& prefix);
  /// Returns whether `prefix` begins the id of a sweep and not of a job; a whole id wins. False if it begins neither.
  /// Throws JobRefused if both are equally possible.
  bool is_sweep(const std::string& prefix);
  /// Returns at most 20 messages about entries that were left out of lists since the last call.
  std::vector<std::string> take_damage() { return std::exchange(damage_, {}); }
  /// Returns the record of a job; empty if the queue has no such job. Settings of its sweep replace kSweepSettings.
  std::optional<JobRecord> job(const std::string& id);
  /// Returns the stored artifacts of a job.
  JobArtifacts artifacts(const std::string& id);
  /// Returns records in the order of `ids`, without jobs that are gone. Their settings may be kSweepSettings.
  std::vector<JobRecord> jobs(const std::vector<std::string>& ids);
  /// Returns the ids of at most `limit` jobs in a state, the last to enter it first.
  std::vector<std::string> ids_in(JobState state, int64_t limit);
  /// Returns the ids of a sweep's jobs, by trial; at most a million.
  std::vector<std::string> ids_of_sweep(const std::string& sweep);
  /// Returns the ids of at most `limit` sweeps, the newest first.
  std::vector<std::string> sweeps(int64_t limit);
  /// Returns the record of a sweep without `jobs` and `unreadable` (see states()); empty if there is no such sweep.
  std::optional<SweepRecord> sweep(const std::string& id);
  /// Returns the changes of a Bayesian sweep's trials from change number `from` (from 0) on. Throws DamagedRecord.
  TrialChanges changes(const std::string& sweep, int64_t from);
  /// Reads fields of many jobs without making records. Calls `take` for each job with its index in `ids` and the texts
  /// of `fields` (missing or damaged: empty), valid during the call. Leaves out jobs that are gone or of another type.
  using Take = std::function<void(size_t index, const std::vector<std::string_view>& values)>;
  void scan(const std::vector<std::string>& ids, const std::vector<std::string>& fields, const Take& take);
  /// Returns states in the order of `ids`; empty for jobs that are gone and for damaged states, whose number is added
  /// to `unreadable`.
  std::vector<std::optional<JobState>> states(const std::vector<std::string>& ids, int64_t& unreadable);
  /// Returns records in the order of `ids`, without jobs that are gone. They have id, kind, sweep, trial, parameters,
  /// deferred, metric, maximize, state and objectives, and `unreadable` for what is damaged.
  std::vector<JobRecord> trials(const std::vector<std::string>& ids);
  /// Returns the last lines of a job's log, at most Limits::kLogLines, and sets `total` to the number of lines ever
  /// written. A damaged line becomes "[damaged: …]". Throws DamagedRecord if the log is no list.
  std::vector<std::string> log(const std::string& id, int64_t& total);
  QueueStatistics statistics();  // values that cannot be read keep their defaults and are named in `unreadable`
  /// Returns RedisQueue::identity; empty if the queue has none yet.
  std::string identity();

 private:
  static constexpr size_t kHashesInPipeline = 64;  // most records that one pipeline reads
  using Arguments = RedisClient::Arguments;
  std::string key(const std::string& rest) const { return prefix_ + rest; }
  /// Runs a pipeline and returns the replies. A call whose key has another type than documented, or is too large to be
  /// read, is an error that names the key. Without `wrong`, the first error is thrown as DamagedRecord. With `wrong`,
  /// the message of each error is added to `wrong` under the index of its call, and the call's reply is null.
  std::vector<Reply> ask(const std::vector<Arguments>& calls, std::map<size_t, std::string>* wrong = nullptr);
  /// Runs `command` (HGETALL; HGET or HMGET with fields) for the key `kind` + name of each of `names`, in batches, and
  /// calls `take` with each reply. For errors of ask(), calls `mark`, or throws DamagedRecord if `mark` is null.
  void ask_each(const std::string& kind, const std::vector<std::string>& names, const Arguments& command,
                const std::function<void(const std::string& name, const redisReply& reply)>& take,
                const std::function<void(const std::string& name, const std::string& why)>& mark = nullptr);
  /// Throws JobRefused if the queue has another protocol.
  void expect_protocol();
  void note_damage(std::string what);  // adds a message for take_damage(), of at most 20
  /// Returns the members of a list or set at `key` that are ids, and notes the others as damage.
  std::vector<std::string> only_ids(const std::string& key, std::vector<std::string> members);
  /// Returns at most `limit` ids of a sorted set, in the order of `command` (ZRANGE or ZREVRANGE).
  std::vector<std::string> ids(const std::string& command, const std::string& key, int64_t limit);
  /// Returns the ids of at most six jobs that begin with `prefix`, sorted: a whole id comes first.
  std::vector<std::string> jobs_like(const std::string& prefix);
  /// Returns the ids of all sweeps that begin with `prefix`, or only `prefix` if that is a sweep.
  std::vector<std::string> sweeps_like(const std::string& prefix);
  static std::map<JobState, int64_t> zero_counts();  // a count of 0 for each state
  /// Sets JobRecord::overdue_ms.
  void find_lost_leases(std::vector<JobRecord>& records);
  void read_rates(QueueStatistics& statistics);  // sets per_minute
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
