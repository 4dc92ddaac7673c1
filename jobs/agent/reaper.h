#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/queue_link.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Has the queue take back leases that ran out, in turn with all other agents, and logs what it warns of.
class Reaper {
 public:
  Reaper(std::string agent, QueueLink& link, World& world, spdlog::logger& log);
  double next() const { return next_; }  // when it is due
  /// `between` is called between the queue's batches.
  void reap(double now, const std::function<void()>& between);

 private:
  std::string agent_;
  QueueLink& link_;
  World& world_;
  spdlog::logger& log_;
  int64_t agents_ = 1;    // that live, as far as the queue knows
  bool may_reap_ = true;  // until Redis refuses it, which is said once
  double next_ = 0, next_warning_ = 0;
};

}  // namespace foretime::jobs
