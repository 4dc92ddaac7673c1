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

/// Provides the records that ParameterProposer needs; jobs/queue/queue_reader.h reads them from Redis.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  /// Returns the record of a sweep, which need not have counts of jobs; empty if there is no such sweep.
  virtual std::optional<SweepRecord> sweep(const std::string& id) = 0;
  /// Returns the changes of a sweep's trials from change number `from` on; 0: all.
  virtual TrialChanges changes(const std::string& sweep, int64_t from) = 0;
  /// Returns the records of those of `ids` that exist, with at least the members of QueueReader::trials.
  virtual std::vector<JobRecord> jobs(const std::vector<std::string>& ids) = 0;
};

/// Returns what the estimator learns from a trial. A succeeded or stopped trial has its best objective. A cancelled one
/// counts only if it reached an objective. All other trials have no value and count as the worst. Empty if the trial
/// does not count: its record is damaged, its parameters are not decided, or it is not a training.
std::optional<Observation> observation_of(const JobRecord& job);

/// Decides the parameters of deferred jobs (method bayes) for one agent. Keeps the trials of a sweep in memory and
/// reads only changes. Agents decide in parallel without waiting and do not see the trials that others are deciding; as
/// samples depend on the trial's number, they still decide differently.
class ParameterProposer {
 public:
  /// The most sweeps in memory; the most recently used ones are kept. A sweep of ten thousand trials takes a few MB.
  static constexpr size_t kMostSweeps = 64;

  /// Reads trials from `source`, which must outlive this object.
  explicit ParameterProposer(TrialSource& source) : source_(source) {}

  /// Decides the parameters of the lease's job, fixes them in the queue and returns them. Returns parameters that are
  /// already fixed unchanged. Throws JobRefused if the lease was lost or the sweep is unknown, SweepError if the
  /// sweep's definition is damaged, and the errors of the queue and the source.
  Parameters decide(JobQueue& queue, const Lease& lease);

 private:
  struct History {
    SweepRecord sweep;
    SearchSpace space;
    int64_t read = 0;                                             // number of changes read so far
    std::string last_change;                                      // id of the trial of the last change read
    int64_t last_use = 0;                                         // refreshes_ at the last refresh() of this sweep
    std::map<std::pair<int64_t, std::string>, Observation> seen;  // key: number and id of the trial
  };
  /// Reads the changes of the lease's sweep since the last call. Throws JobRefused if the sweep is unknown.
  History& refresh(const Lease& lease);
  /// Replaces `history` by the sweep's record, and sets `changes` to all changes; an unknown sweep leaves it empty.
  void read_all_trials(const std::string& sweep, History& history, TrialChanges& changes);

  TrialSource& source_;
  std::map<std::string, History> histories_;  // key: id of the sweep
  int64_t refreshes_ = 0;                     // number of calls of refresh()
};

/// Returns a ParameterProposer as Proposer of jobs/agent/agent_options.h. It reads trials over a separate connection.
std::function<Parameters(JobQueue& queue, const Lease& lease)> redis_proposer(RedisUrl url, QueueSettings settings);

}  // namespace foretime::jobs
