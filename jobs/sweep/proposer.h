#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jobs/queue/queue.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/redis/redis_url.h"
#include "jobs/sweep/search_space.h"

namespace foretime::jobs {

/// What deciding deferred trials must read; jobs/queue/queue_reader.h reads it from Redis.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  virtual std::optional<SweepRecord> sweep(const std::string& id) = 0;  // counts of jobs may be missing
  virtual TrialChanges changes(const std::string& sweep, int64_t from) = 0;
  virtual std::vector<std::string> ids_of(const std::string& sweep) = 0;
  /// Those that exist; progress may be missing.
  virtual std::vector<JobRecord> jobs(const std::vector<std::string>& ids) = 0;
};

/// What a trial tells the estimator about the others. Succeeded and stopped ones count with the best objective that
/// they reached, failed and dead ones and those that run or wait again count without a value (as the worst), cancelled
/// ones only where they reached one. Empty: nothing, as of trials without parameters.
std::optional<Observation> observation_of(const JobRecord& job);

/// Decides the parameters of deferred jobs (method bayes) for one agent. It remembers what it read of a sweep and reads
/// only what changed since, so a decision takes as long for the ten-thousandth trial as for the hundredth. Agents
/// decide side by side: none waits for another, and two that decide at once do not see each other's trial; as their
/// draws depend on the number of the trial, they decide differently all the same.
class ParameterProposer {
 public:
  /// Sweeps that are remembered at a time, those that were decided for last. One of ten thousand trials takes a few MB.
  static constexpr size_t kHistories = 64;

  /// `source` must outlive it.
  explicit ParameterProposer(TrialSource& source) : source_(source) {}

  /// Fixes the parameters in the queue and returns them; those that are fixed already are returned as they are. Throws
  /// JobRefused where the lease was lost or the sweep is unknown, SweepError where the definition is damaged.
  Parameters decide(JobQueue& queue, const Lease& lease);

 private:
  struct History {
    SweepRecord sweep;
    SearchSpace space;
    int64_t read = 0;                                             // changes
    std::string last;                                             // of these
    int64_t used = 0;                                             // the call of read() that was the last for it
    std::map<std::pair<int64_t, std::string>, Observation> seen;  // by trial and id
  };
  History& read(const Lease& lease);
  void read_all(const std::string& sweep, History& history, TrialChanges& changes, std::vector<std::string>& ids);

  TrialSource& source_;
  std::map<std::string, History> histories_;  // by sweep
  int64_t reads_ = 0;                         // calls of read()
};

/// Decides with a connection of its own for reading, as jobs/agent/agent_options.h takes it.
std::function<Parameters(JobQueue& queue, const Lease& lease)> redis_proposer(RedisUrl url, QueueSettings settings);

}  // namespace foretime::jobs
