#pragma once

#include <exception>
#include <memory>
#include <utility>

#include <spdlog/logger.h>

#include "jobs/agent/agent_heartbeat.h"
#include "jobs/agent/agent_job.h"
#include "jobs/agent/world.h"
#include "jobs/error.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

constexpr double kRefusedInterval = 60.0;  // seconds until a refused call is tried again

/// Makes the calls of an agent's loop to the queue: no call waits for an unreachable Redis.
class QueueLink {
 public:
  QueueLink(std::shared_ptr<JobQueue> queue, World& world, spdlog::logger& log)
      : queue_(std::move(queue)), world_(world), log_(log), link_("agent", kLongestPause, world, log) {}

  JobQueue& queue() { return *queue_; }
  bool open(double now) const { return link_.open(now); }  // false during the pause after a failed call
  bool open() const { return open(world_.steady_seconds()); }
  bool down() const { return link_.down(); }               // whether the last call failed
  bool denied() const { return link_.down() && denied_; }  // reached but refused, for example over a password
  double next() const { return link_.next(); }             // time of the next attempt; 0: at once

  /// Calls the queue. Returns false if Redis is unreachable, or denies a connection after earlier calls succeeded
  /// (passwords are being changed). Throws the other errors of `call`.
  template <class Call>
  bool reach(const Call& call) {
    try {
      call();
      link_.worked(world_.steady_seconds());
      reached_ = true;
      return true;
    } catch (const RedisUnavailable& error) {
      denied_ = false;
      link_.failed(error.what(), world_.steady_seconds());
    } catch (const RedisDenied& error) {
      if (!reached_) throw;
      denied_ = true;
      link_.failed(error.what(), world_.steady_seconds());
    }
    return false;
  }

  /// Calls the queue for no particular job. Until a first call has succeeded, rethrows a JobsError, which ends the
  /// agent, except RedisUnavailable. Later JobsErrors only delay the next call, so that running jobs are kept.
  template <class Call>
  void reach_or_pause(const Call& call) {
    try {
      reach(call);
    } catch (const JobsError& error) {
      if (!reached_) throw;
      link_.failed(error.what(), world_.steady_seconds());
    }
  }

  /// Calls the queue for a job. Returns false if Redis must not be called now, is unreachable, or if `call` throws
  /// another error, which is logged and makes the agent give the job up.
  template <class Call>
  bool reach_for(AgentJob& job, const Call& call) {
    if (!open()) return false;
    try {
      return reach(call);
    } catch (const std::exception& error) {
      log_.error("job {}: {}", job.lease().job, error.what());
      job.give_up();
    }
    return false;
  }

 private:
  std::shared_ptr<JobQueue> queue_;
  World& world_;
  spdlog::logger& log_;
  ReconnectTimer link_;
  bool reached_ = false;  // a call has succeeded
  bool denied_ = false;   // the last failed call was refused
};

}  // namespace foretime::jobs
