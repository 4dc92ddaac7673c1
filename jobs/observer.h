#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jobs/queue.h"
#include "jobs/redis_client.h"

namespace foretime::jobs {

struct SweepRecord {
  SweepSpec spec;
  std::string state;  // running | paused | cancelled
  int64_t created_ms = 0;
  int64_t proposals = 0;             // deferred parameters decided so far
  std::map<JobState, int64_t> jobs;  // counts
};

struct AgentRecord {
  std::string name, host, version;
  int64_t seen_ms = 0, started_ms = 0, pid = 0, cpus = 0, gpus = 0, jobs = 0;
};

struct QueueStatistics {
  int64_t now_ms = 0;
  std::map<JobState, int64_t> jobs;
  std::map<std::string, int64_t> totals;     // submitted, claimed, succeeded, …, lost_leases, refused; since ever
  std::map<std::string, double> per_minute;  // of the same, over the last five minutes of the event stream
  int64_t oldest_waiting_ms = 0;             // age; 0: none waits
  bool paused = false;
  std::vector<AgentRecord> agents;
};

/// Reads what the queue's scripts write, with read-only commands, so that a user with read rights can watch. Everything
/// read is checked against Limits; a field that is damaged is an error that names key and field.
class Observer {
 public:
  Observer(RedisClient& client, QueueSettings settings);
  /// The full id for a unique prefix of it (jobs and sweeps alike). JobRefused: unknown or ambiguous.
  std::string resolve_job(const std::string& prefix);
  std::string resolve_sweep(const std::string& prefix);
  bool is_sweep(const std::string& prefix);
  std::optional<JobRecord> job(const std::string& id);
  std::vector<JobRecord> jobs(const std::vector<std::string>& ids);
  /// Newest first.
  std::vector<std::string> ids_in(JobState state, int64_t limit);
  std::vector<std::string> ids_of_sweep(const std::string& sweep);  // by trial
  std::vector<std::string> sweeps(int64_t limit);                   // newest first
  std::optional<SweepRecord> sweep(const std::string& id);
  std::vector<std::string> log(const std::string& id,
                               int64_t& total);  // the ring, and how many lines were ever written
  QueueStatistics statistics();

 private:
  RedisClient& client_;
  QueueSettings settings_;
};

/// Prometheus' text exposition format, version 0.0.4.
std::string to_prometheus(const QueueStatistics& statistics);

}  // namespace foretime::jobs
