#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/queue_link.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Whether the queue is still the one that an agent joined: Redis neither evicts its keys, nor was it emptied or
/// replaced. Otherwise jobs are lost, and what is left of them may be damaged, so that nothing is claimed.
class StoreWatch {
 public:
  static constexpr double kLookInterval = 15, kTroubleInterval = 5;  // seconds

  /// `identity`: of the queue that the agent joined (RedisQueue::identity); empty: the first that it has.
  StoreWatch(std::string agent, std::string identity, QueueLink& link, World& world, spdlog::logger& log);

  double next() const { return next_; }  // when the next look is due
  void at_once() { next_ = 0; }
  /// Asks the queue, and logs what is wrong, or right again.
  void look(double now);
  /// Why nothing is claimed; empty: nothing is wrong.
  const std::string& trouble() const { return trouble_; }

 private:
  std::string trouble_of(const StoreState& state);

  std::string agent_, identity_;
  QueueLink& link_;
  World& world_;
  spdlog::logger& log_;
  double next_ = 0;
  std::string trouble_;
  std::optional<int64_t> evicted_before_;  // keys, when this agent looked first, since the start of that Redis
  int64_t evicted_ = 0;                    // keys since then
  bool may_ask_ = true;                    // until Redis refuses, which is logged once
};

}  // namespace foretime::jobs
