#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/agent_job.h"
#include "jobs/agent/agent_options.h"
#include "jobs/agent/host_watch.h"
#include "jobs/agent/node_health.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Holds the facts about an attempt from which the cause of its failure is decided.
struct FailureEvidence {
  double check_since = 0;     // earliest start of the machine check that counts for this attempt
  bool awaits_check = false;  // waits for that check
  double channel_lost_at = kNever;
  bool classified = false;
};

/// Decides whether an attempt failed because of its job, or because the agent's machine is in trouble or a host of the
/// job no longer answers.
class FailureClassifier {
 public:
  /// Starts checking the machine and its hosts. `waiter` is woken when a check has ended.
  FailureClassifier(const AgentOptions& options, Waiter& waiter, World& world, spdlog::logger& log);

  /// Returns the hosts that do not answer, if that has changed since the last call; otherwise empty.
  std::optional<std::set<std::string>> changed_silent_hosts();
  /// Returns why nothing is claimed; empty if nothing is wrong.
  std::string trouble() const { return all_silent_ ? "none of its hosts answers" : health_.trouble(); }
  NodeHealth& health() { return health_; }
  const NodeHealth& health() const { return health_; }

  /// Returns the result of the machine check for an attempt.
  NodeHealth::Answer check_machine(FailureEvidence& evidence, double now);
  /// Returns whether the result of an ended job may be written; false: not yet. Gives the job back if it is not the
  /// cause of its failure.
  bool classify(AgentJob& job, FailureEvidence& evidence);
  /// Ends a job whose ranks are gone while its launcher waits for a lost host, which mpirun does for minutes.
  void end_if_abandoned(AgentJob& job, FailureEvidence& evidence, double now);
  /// Returns when a running job must be looked at again; kNever if it need not be.
  double next_turn(const AgentJob& job, const FailureEvidence& evidence, double now) const;

 private:
  /// Returns a text that names the job's hosts that went silent, empty text if none did; no value while that is
  /// unknown.
  std::optional<std::string> lost_hosts(const AgentJob& job, const FailureEvidence& evidence);

  size_t host_count_;
  World& world_;
  std::unique_ptr<HostWatch> hosts_;  // null: jobs run only on this host
  bool all_silent_ = false;           // no host in hosts_ answers
  NodeHealth health_;
};

}  // namespace foretime::jobs
