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

/// Provides the records that deciding deferred trials needs; jobs/queue/queue_reader.h reads them from Redis.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  virtual std::optional<SweepRecord> sweep(const std::string& id) = 0;  // counts of jobs may be missing
  /// Returns the changes of a sweep's trials from number `from` on; 0: all.
  virtual TrialChanges changes(const std::string& sweep, int64_t from) = 0;
  /// Returns the records of the jobs that exist; progress may be missing.
  virtual std::vector<JobRecord> jobs(const std::vector<std::string>& ids) = 0;
};

/// Returns what the estimator learns from a trial. Succeeded and stopped trials have their best objective; failed,
/// dead, running and waiting ones have no value (counted as the worst); cancelled ones count only if they reached an
/// objective. Empty if the trial does not count, for example without parameters.
std::optional<Observation> observation_of(const JobRecord& job);

/// Decides the parameters of deferred jobs (method bayes) for one agent. Remembers the trials of a sweep and reads only
/// changes, so that a decision takes as long for the ten-thousandth trial as for the hundredth. Agents decide in
/// parallel without waiting and do not see each other's pending trial; as their samples depend on the trial's number,
/// they still decide differently.
class ParameterProposer {
 public:
  /// Limits the number of sweeps in memory; the most recently used are kept. A sweep of ten thousand trials takes a few
  /// MB.
  static constexpr size_t kMostSweeps = 64;

  /// Reads trials from `source`, which must outlive this object.
  explicit ParameterProposer(TrialSource& source) : source_(source) {}

  /// Fixes the parameters in the queue and returns them; already fixed ones are returned unchanged. Throws JobRefused
  /// if the lease was lost or the sweep is unknown, SweepError if the definition is damaged.
  Parameters decide(JobQueue& queue, const Lease& lease);

 private:
  struct History {
    SweepRecord sweep;
    SearchSpace space;
    int64_t read = 0;                                             // number of changes read so far
    std::string last_change;                                      // id of the last change read
    int64_t last_use = 0;                                         // number of the last call of read() for this sweep
    std::map<std::pair<int64_t, std::string>, Observation> seen;  // key: trial and id
  };
  History& refresh(const Lease& lease);
  void read_all_trials(const std::string& sweep, History& history, TrialChanges& changes);

  TrialSource& source_;
  std::map<std::string, History> histories_;  // key: sweep
  int64_t refreshes_ = 0;                     // calls of read()
};

/// Returns a proposer that reads over its own connection, for jobs/agent/agent_options.h.
std::function<Parameters(JobQueue& queue, const Lease& lease)> redis_proposer(RedisUrl url, QueueSettings settings);

}  // namespace foretime::jobs
