#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <spdlog/logger.h>

#include "base/no_copy.h"
#include "jobs/agent/agent_options.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Claims jobs that fit its free slots and runs each in runs/<job id>/attempt-<fence> as a supervised child
/// (jobs/supervisor/supervisor.h). An agent that lost its lease therefore overwrites nothing, and the next attempt
/// continues from the newest published checkpoint.
///
/// One loop handles children, sockets and transitions; one thread renews the leases over a separate connection. A job
/// without progress for `stall_seconds` is killed. If a job does not end within a lease term after SIGKILL, its lease
/// is no longer renewed. If the loop hangs, no lease is renewed. While Redis cannot be reached, the agent continues its
/// jobs, keeps their reports, and reconnects after 1 to 20 s.
///
/// Exit codes of a job:
/// - 0, and 6 from a fine-tuning (its bundle has the weights of its parent): succeeded if the result exists (metrics, a
///   whole checkpoint, a bundle), otherwise an error.
/// - 2, 3 and 70 (settings, data, a broken invariant): failed.
/// - 74 (storage failed): preempted; costs no attempt and has a separate limit.
/// - 75: stopped, cancelled or preempted, as requested; preempted without a request.
/// - Any other code, a signal or a stall: an error, so that the job is tried again; out of memory twice: failed.
///
/// A job that was ended by SIGTERM or SIGKILL after a request ends as requested.
///
/// A background thread checks the roots before a job starts and after a job has failed (node_health.h). While the
/// machine cannot run jobs, the agent claims nothing and gives back the jobs that failed because of it, without
/// counting an attempt. A damaged job record ends its job and not the agent.
///
/// A request (early stopping, cancel, drain) reaches a training job over its socket, and by SIGTERM if the job still
/// runs after `stop_grace_seconds`. A job without a channel, or of another kind, gets SIGTERM at once. SIGKILL follows
/// within 30 s.
class Agent : NoCopy {
 public:
  /// Calls completed(), which makes the run root, and throws its errors. Throws JobsError if a GPU is listed twice.
  Agent(AgentOptions options, QueueFactory make_queue, Proposer proposer, spdlog::logger& log,
        World& world = real_world());
  /// Runs until request_stop() is called or, with until_empty, no job is left. Returns the number of jobs that ended
  /// here, without preempted attempts and errors. Rethrows the error if Redis refuses the first call. Throws
  /// RedisDataLost if no job is left because Redis lost jobs.
  int64_t run();
  /// The first call makes the agent drain: no job is claimed, and running jobs write a checkpoint and wait again. Later
  /// calls kill the jobs. Async-signal-safe, for SIGTERM and SIGINT.
  void request_stop();

 private:
  AgentOptions options_;
  QueueFactory make_queue_;
  Proposer proposer_;
  spdlog::logger& log_;
  World& world_;
  std::unique_ptr<Waiter> waiter_;
  std::atomic<int> stops_{0};  // number of calls of request_stop()
};

}  // namespace foretime::jobs
