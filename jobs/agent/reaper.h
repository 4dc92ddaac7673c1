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
  double next() const { return next_; }  // when it is due
  /// Reaps expired leases if that is due at `now`. `between` is called between the queue's batches.
  void reap(double now, const std::function<void()>& between);

 private:
  std::string agent_;
  QueueLink& link_;
  World& world_;
  spdlog::logger& log_;
  int64_t agents_ = 1;    // agents known to the queue
  bool may_reap_ = true;  // false after Redis refused it, which is logged once
  double next_ = 0, next_warning_ = 0;
};

}  // namespace foretime::jobs
