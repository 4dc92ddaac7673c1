#pragma once

#include <memory>
#include <vector>

#include <poll.h>
#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/agent/world.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Decides when an agent claims jobs: at once after a slot was freed or the queue has announced a waiting job,
/// otherwise every second, or every 15 s while announcements arrive.
class ClaimSchedule {
 public:
  /// Schedules the first claim at once. `listener` is a queue with its own connection.
  ClaimSchedule(const AgentOptions& options, std::shared_ptr<JobQueue> listener, World& world, spdlog::logger& log);

  bool due(double now) const { return now >= next_; }
  /// Returns whether a claim may be combined with a result in one call.
  bool due_with_result(double now) const { return now >= next_with_result_ && due(now); }
  double next() const { return next_; }
  /// Returns when to try again to subscribe to announcements; kNever if subscribed or if the queue has none.
  double next_listen() const { return wake_ups_ ? kNever : next_listen_; }

  void make_due() { next_ = world_.steady_seconds(); }
  /// Schedules a claim after a job has ended. `came_back` says that the job waits again.
  void slot_freed(bool came_back);
  /// Schedules the next claim after a claim that found nothing (`may_claim`), or while nothing may be claimed.
  void wait_after_claim(bool may_claim);
  /// Separates claims from results for a while, because Redis refused the combined call.
  void separate_claims(double now);

  /// Keeps the connection over which the queue announces waiting jobs. `open` says whether Redis may be called.
  void listen(double now, bool open);
  void add_descriptors(std::vector<pollfd>& descriptors) const;

 private:
  const AgentOptions& options_;
  std::shared_ptr<JobQueue> listener_;
  World& world_;
  spdlog::logger& log_;
  std::unique_ptr<WakeUps> wake_ups_;
  bool may_listen_ = true;  // false after Redis refused the subscription, which is logged once
  double pause_ = 1;        // seconds after a claim that found nothing
  double next_ = 0, next_with_result_ = 0, next_listen_ = 0;
};

}  // namespace foretime::jobs
