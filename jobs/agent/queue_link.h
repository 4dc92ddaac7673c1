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

constexpr double kRefusedInterval = 60.0;  // seconds before what Redis refused is tried again

/// The calls of an agent's loop to the queue: none of them waits for a Redis that is away, and a refusal costs no more
/// than it must.
class QueueLink {
 public:
  QueueLink(std::shared_ptr<JobQueue> queue, World& world, spdlog::logger& log)
      : queue_(std::move(queue)), world_(world), log_(log), link_("agent", kLongestPause, world, log) {}

  JobQueue& queue() { return *queue_; }
  bool open(double now) const { return link_.open(now); }
  bool open() const { return open(world_.steady_seconds()); }
  bool down() const { return link_.down(); }
  bool denied() const { return link_.down() && denied_; }  // reached, and refused, over a password for example
  double next() const { return link_.next(); }             // when to try again; 0: at once

  /// Calls the queue; false where Redis is away, or refuses for now what it took before: passwords are being changed.
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

  /// Calls the queue for no job in particular. Where the very first call is refused, the agent ends; a later refusal
  /// must not cost the jobs that run.
  template <class Call>
  void reach_or_pause(const Call& call) {
    try {
      reach(call);
    } catch (const JobsError& error) {
      if (!reached_) throw;
      link_.failed(error.what(), world_.steady_seconds());
    }
  }

  /// Calls the queue for a job; false also where its call was refused, which ends its attempt here.
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
  Link link_;
  bool reached_ = false;  // once
  bool denied_ = false;   // by the last call that failed
};

}  // namespace foretime::jobs
