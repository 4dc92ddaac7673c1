#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/agent_options.h"
#include "jobs/agent/program_folder.h"
#include "jobs/agent/queue_link.h"
#include "jobs/agent/world.h"
#include "jobs/queue/queue.h"

/// An agent watches the whole queue, besides its own jobs.
namespace foretime::jobs {

/// Finds the waiting jobs of the queue that an agent cannot run.
class Backlog {
 public:
  Backlog(const AgentOptions& options, const ProgramFolder& programs, spdlog::logger& log)
      : options_(options), programs_(programs), log_(log) {}
  /// Logs a warning about waiting jobs that can never fit or whose program this agent does not run. Returns whether the
  /// agent may end: until_empty is set, and the queue has no other jobs that have not ended. Called while the agent
  /// runs no job. Throws the errors of the queue.
  bool is_drained(JobQueue& queue);

 private:
  const AgentOptions& options_;
  const ProgramFolder& programs_;
  spdlog::logger& log_;
  std::string warning_;  // last warning, so that each is logged once
};

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
  int64_t agents_ = 1;       // number of agents that the queue knows
  bool is_refused_ = false;  // Redis refused the last attempt; only the first of several refusals is logged
  double next_ = 0, next_warning_ = 0;
};

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
  bool is_refused_ = false;                // Redis refused the last check; only the first of several refusals is logged
};

}  // namespace foretime::jobs
