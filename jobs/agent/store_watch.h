#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/queue_link.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Watches whether the queue is still the one that an agent joined: Redis has neither evicted keys nor been emptied or
/// replaced. Otherwise jobs are lost and records may be damaged, so that nothing is claimed.
class StoreWatch {
 public:
  static constexpr double kCheckInterval = 15, kTroubleInterval = 5;  // seconds between checks; during trouble

  /// Expects the queue with `identity` (RedisQueue::identity); if that is empty, the queue of the first check.
  StoreWatch(std::string agent, std::string identity, QueueLink& link, World& world, spdlog::logger& log);

  double next() const { return next_; }  // time of the next check
  void make_due() { next_ = 0; }
  /// Reads the state of the store, and logs trouble or its end. Keeps the earlier result if Redis does not answer.
  void check(double now);
  /// Returns why the agent claims nothing; empty if nothing is wrong.
  const std::string& trouble() const { return trouble_; }

 private:
  /// Returns why the queue cannot be trusted; empty if it can.
  std::string trouble_of(const StoreState& state);

  std::string agent_, identity_;
  QueueLink& link_;
  World& world_;
  spdlog::logger& log_;
  double next_ = 0;
  std::string trouble_;
  std::optional<int64_t> evicted_before_;  // number of evicted keys at the last check; empty: not known
  int64_t evicted_ = 0;                    // number of keys evicted since the first check
  bool may_ask_ = true;                    // false after Redis refused, which is logged once
};

}  // namespace foretime::jobs
