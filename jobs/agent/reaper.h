#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/queue_link.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Makes the queue take back expired leases, in turn with all other agents, and logs the queue's warnings.
class Reaper {
 public:
  Reaper(std::string agent, QueueLink& link, World& world, spdlog::logger& log);
  /// Returns when the next reap() is due, in seconds of World::steady_seconds.
  double next() const { return next_; }
  /// Calls JobQueue::reap() for at most 20 batches and sets next(); the caller checks that next() has come. Calls
  /// `between` between batches. Also logs the queue's warning every 300 s. Errors of Redis are logged and not thrown.
  void reap(double now, const std::function<void()>& between);

 private:
  std::string agent_;
  QueueLink& link_;
  World& world_;
  spdlog::logger& log_;
  int64_t agents_ = 1;    // number of agents that the queue knows
  bool may_reap_ = true;  // false after Redis refused it, which is logged once
  double next_ = 0, next_warning_ = 0;
};

}  // namespace foretime::jobs
