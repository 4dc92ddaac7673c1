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

/// What is kept of an attempt for judging its end.
struct Evidence {
  double look_since = 0;  // the machine is looked at then or later, before the job starts or its failure is believed
  bool looking = false;   // waits for that
  double deserted_at = kNever;
  bool judged = false;
};

/// Whether an attempt's end is the job's own: it is not where the agent's machine is in trouble, or a host of the job
/// does not answer any more.
class EndJudge {
 public:
  /// `waiter` is woken when a look is over.
  EndJudge(const AgentOptions& options, Waiter& waiter, World& world, spdlog::logger& log);

  /// The hosts that do not answer, where that is news since the last call.
  std::optional<std::set<std::string>> news_of_hosts();
  /// Why nothing is claimed; empty: nothing is wrong.
  std::string trouble() const { return all_silent_ ? "none of its hosts answers" : health_.trouble(); }
  NodeHealth& health() { return health_; }
  const NodeHealth& health() const { return health_; }

  NodeHealth::Answer look(Evidence& evidence, double now);
  /// Whether the result of a job that has ended may be written; false: not yet. Gives the job back where its failure
  /// is not its own.
  bool judge(AgentJob& job, Evidence& evidence);
  /// Ends a job whose ranks are gone while its launcher waits for a lost host: mpirun does for minutes.
  void look_after_deserted(AgentJob& job, Evidence& evidence, double now);
  /// When there is something to do for a job that runs; kNever: there is nothing.
  double next_turn(const AgentJob& job, const Evidence& evidence, double now) const;

 private:
  /// Which hosts of a job went silent, in words; empty where none did. None: it is not known yet.
  std::optional<std::string> lost_hosts(const AgentJob& job, const Evidence& evidence);

  size_t host_count_;
  World& world_;
  std::unique_ptr<HostWatch> hosts_;  // null: jobs run on this host alone
  bool all_silent_ = false;           // these hosts
  NodeHealth health_;
};

}  // namespace foretime::jobs
