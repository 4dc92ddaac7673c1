#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Claims jobs that fit its free slots and runs each as a supervised child (jobs/supervisor/supervisor.h) in
/// runs/<job id>/attempt-<fence>, so that an agent that lost its lease overwrites nothing; the next attempt continues
/// from the newest checkpoint that was published.
///
/// One loop handles children, sockets and transitions; one thread renews the leases over a connection of its own. A job
/// that shows no progress for `stall_seconds` is killed; where it does not end within a term of that, its lease is no
/// longer renewed, and no lease is when the loop itself hangs. When Redis cannot be reached the agent goes on with the
/// jobs that it holds, keeps what it has to report, and tries again after 1 to 20 s.
///
/// Exit codes of a job: 0, and 6 of a fine-tuning (its bundle has the weights of its parent), mean succeeded where the
/// result is there (metrics, a whole checkpoint, a bundle), and else an error; 2 and 3 (settings, data) failed; 75
/// stopped, cancelled or preempted, as was requested, and preempted without a request; 74 (the storage failed)
/// preempted, which costs no attempt and has a bound of its own. Anything else (4 and 5, too: a device that is not
/// there or a rank that crashes looks like a machine that fails), a signal and a stall are errors, after which the job
/// is tried again. A job that had to be ended by SIGTERM or SIGKILL after a request ends as was requested.
///
/// The roots are looked at beside the loop before a job starts and after one has failed (node_health.h); while the
/// machine cannot run jobs the agent claims nothing, and jobs that failed because of it are given back without an
/// attempt. A record that cannot be read ends its job and no agent.
///
/// A request (early stopping, cancel, drain) reaches a training job over its socket, and by SIGTERM when it still runs
/// after `stop_grace_seconds`; evaluations, exports and programs that do not listen get SIGTERM at once. SIGKILL
/// follows within 30 s.
class Agent {
 public:
  /// Makes the run root. Throws JobsError where a root cannot be used or a GPU is named twice.
  Agent(AgentOptions options, QueueFactory make_queue, Proposer proposer, spdlog::logger& log,
        World& world = real_world());
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  /// Runs until `stop` is set (SIGTERM drains: jobs checkpoint and wait again) or, with until_empty, nothing is left.
  /// A second request kills. Returns the number of jobs that reached an end here. Throws what claiming throws where
  /// Redis refuses; no job is left running then.
  int64_t run();
  /// Async-signal-safe; for SIGTERM and SIGINT.
  void request_stop();

 private:
  AgentOptions options_;
  QueueFactory make_queue_;
  Proposer proposer_;
  spdlog::logger& log_;
  World& world_;
  std::unique_ptr<Waiter> waiter_;
  std::atomic<int> stops_{0};  // requests to end
};

}  // namespace foretime::jobs
