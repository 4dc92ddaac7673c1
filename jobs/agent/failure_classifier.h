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
  double check_since = 0;           // earliest start of a machine check that counts for this attempt
  bool awaits_check = false;        // the attempt waits for such a check
  double channel_lost_at = kNever;  // time at which the job's channel was found closed; kNever: it was not
  bool classified = false;          // the cause is decided
};

/// Decides whether an attempt failed because of its job, or because of the agent's machine or a host that is lost.
class FailureClassifier {
 public:
  /// Starts checking the machine and its hosts. `waiter` is woken when a check has ended.
  FailureClassifier(const AgentOptions& options, Waiter& waiter, World& world, spdlog::logger& log);

  /// Returns HostWatch::changed_silent_hosts(); empty if jobs run only on this host.
  std::optional<std::set<std::string>> changed_silent_hosts();
  /// Returns why the agent claims nothing; empty if nothing is wrong.
  std::string trouble() const { return all_silent_ ? "none of the agent's hosts answers" : health_.trouble(); }
  NodeHealth& health() { return health_; }
  const NodeHealth& health() const { return health_; }

  /// Returns the result of a machine check that counts for an attempt; `wait` until there is one. Sets awaits_check.
  NodeHealth::Answer check_machine(FailureEvidence& evidence, double now);
  /// Returns whether the cause of an ended job's failure is decided, so that the result may be written. Gives the job
  /// back if the machine or a lost host is the cause.
  bool classify(AgentJob& job, FailureEvidence& evidence);
  /// Ends a job as an error if its channel is closed for two seconds and one of its hosts does not answer.
  void end_if_abandoned(AgentJob& job, FailureEvidence& evidence, double now);
  /// Returns the time at which end_if_abandoned() must be called again for a job; kNever if it need not be.
  double next_turn(const AgentJob& job, const FailureEvidence& evidence, double now) const;

 private:
  /// Returns a text that names the job's hosts that do not answer, "" if all answer; no value until a check of the
  /// hosts that counts for the attempt has ended.
  std::optional<std::string> lost_hosts(const AgentJob& job, const FailureEvidence& evidence);

  size_t host_count_;
  World& world_;
  std::unique_ptr<HostWatch> hosts_;  // null: jobs run only on this host
  bool all_silent_ = false;           // no host in hosts_ answers
  NodeHealth health_;
};

}  // namespace foretime::jobs
