#pragma once

#include <memory>
#include <vector>

#include <poll.h>
#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/agent/world.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Decides when an agent claims jobs: at once after a slot was freed or the queue has announced a job, otherwise every
/// second, or every 15 s if it is subscribed to announcements and not until_empty. Times: World::steady_seconds.
class ClaimSchedule {
 public:
  /// Schedules the first claim at once. `listener` is a queue with its own connection.
  ClaimSchedule(const AgentOptions& options, std::shared_ptr<JobQueue> listener, World& world, spdlog::logger& log);

  bool due(double now) const { return now >= next_; }
  /// Returns whether a claim is due and may be combined with a result in one call.
  bool due_with_result(double now) const { return now >= next_with_result_ && due(now); }
  double next() const { return next_; }  // time of the next claim
  /// Returns the time of the next try to subscribe to announcements; kNever if subscribed or if the queue has none.
  double next_listen() const { return wake_ups_ ? kNever : next_listen_; }

  void make_due() { next_ = world_.steady_seconds(); }
  /// Schedules a claim after a job has ended: at once, or, if the same job waits again (`came_back`), after a second.
  void slot_freed(bool came_back);
  /// Schedules the next claim after one that found nothing (`may_claim`), or after a time at which none was allowed.
  void wait_after_claim(bool may_claim);
  /// Makes due_with_result() false for about kRefusedInterval, because Redis refused the combined call.
  void separate_claims(double now);

  /// Schedules a claim if the queue has announced a job. Subscribes if it is time and Redis may be called (`open`).
  void listen(double now, bool open);
  /// Adds the descriptor that becomes readable when listen() has something to do.
  void add_descriptors(std::vector<pollfd>& descriptors) const;

 private:
  const AgentOptions& options_;
  std::shared_ptr<JobQueue> listener_;
  World& world_;
  spdlog::logger& log_;
  std::unique_ptr<WakeUps> wake_ups_;
  bool may_listen_ = true;  // false after Redis refused the subscription, which is logged once
  double pause_ = 1;        // seconds until the claim after one that finds nothing
  double next_ = 0, next_with_result_ = 0, next_listen_ = 0;  // times of the next claim, combined claim, subscription
};

}  // namespace foretime::jobs
