#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jobs/queue/queue.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/redis/redis_url.h"
#include "jobs/sweep/search_space.h"

namespace foretime::jobs {

/// What deciding a deferred trial must read; jobs/queue/queue_reader.h reads it from Redis.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  virtual std::optional<SweepRecord> sweep(const std::string& id) = 0;
  /// The jobs of the sweep, of any kind, in any order.
  virtual std::vector<JobRecord> jobs_of(const std::string& sweep) = 0;
};

/// What the other trials of a sweep tell the estimator. Succeeded and stopped ones count with the best objective that
/// they reached, failed and dead ones and those that run or wait again count without a value (as the worst), cancelled
/// ones only where they reached one. `except` and trials without parameters are left out.
std::vector<Observation> observations_of(const std::vector<JobRecord>& jobs, const std::string& except);

/// Decides the parameters of a deferred job (method bayes) for the agent that holds its lease, and fixes them in the
/// queue. Agents decide one after the other: where another one was faster, it looks again at what is known by then.
/// Parameters that are fixed already are returned. Throws JobRefused where the lease was lost or the sweep is unknown,
/// JobsError where others were faster kProposalTries times, SweepError where the definition is damaged.
Parameters decide_parameters(TrialSource& source, JobQueue& queue, const Lease& lease);
constexpr int kProposalTries = 200;

/// decide_parameters with a connection of its own for reading, as jobs/agent/agent_options.h takes it.
std::function<Parameters(JobQueue& queue, const Lease& lease)> redis_proposer(RedisUrl url, QueueSettings settings);

}  // namespace foretime::jobs
