#pragma once

#include <memory>
#include <vector>

#include <poll.h>
#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/agent/world.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// When an agent asks for jobs: at once where something came free or the queue tells that jobs came to wait, and else
/// every second, or every 15 s where it is told.
class ClaimTurns {
 public:
  /// `listener`: a queue with a connection of its own.
  ClaimTurns(const AgentOptions& options, std::shared_ptr<JobQueue> listener, World& world, spdlog::logger& log);

  bool due(double now) const { return now >= next_; }
  /// Whether a claim may go with a result, in one call.
  bool due_with_result(double now) const { return now >= next_with_result_ && due(now); }
  double next() const { return next_; }
  /// When to try again to be told; kNever: it is told, or nothing can tell.
  double next_listen() const { return wake_ups_ ? kNever : next_listen_; }

  void at_once() { next_ = world_.steady_seconds(); }
  /// A job has ended. `came_back`: it waits again.
  void slot_freed(bool came_back);
  /// After a claim that found nothing, or where nothing may be claimed.
  void rest(bool may_claim);
  /// Redis refused a result with a claim.
  void with_result_refused(double now);

  /// Keeps the connection over which the queue tells when jobs come to wait. `open`: Redis may be asked.
  void listen(double now, bool open);
  void add_descriptors(std::vector<pollfd>& descriptors) const;

 private:
  const AgentOptions& options_;
  std::shared_ptr<JobQueue> listener_;
  World& world_;
  spdlog::logger& log_;
  std::unique_ptr<WakeUps> wake_ups_;
  bool may_listen_ = true;  // until Redis refuses it, which is said once
  double pause_ = 1;        // seconds, after a claim that found nothing
  double next_ = 0, next_with_result_ = 0, next_listen_ = 0;
};

}  // namespace foretime::jobs
