#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <spdlog/logger.h>

#include "jobs/agent/world.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

constexpr double kLongestPause = 20;  // seconds between two attempts to reach Redis

/// Decides when to call Redis again: after 1, 2, 4, … seconds with jitter, at most `longest_seconds`. Logs each reason
/// of an outage once, and the end of the outage.
class ReconnectTimer {
 public:
  ReconnectTimer(std::string who, double longest_seconds, World& world, spdlog::logger& log)
      : who_(std::move(who)), longest_(longest_seconds), world_(world), log_(log) {}
  bool open(double now) const { return now >= next_; }
  bool down() const { return failures_ > 0; }
  double next() const { return next_; }  // time of the next attempt; 0: at once
  /// Records a failed call, and delays the next one.
  void failed(const std::string& what, double now);
  /// Records a successful call.
  void worked(double now);

 private:
  std::string who_;
  double longest_;
  World& world_;
  spdlog::logger& log_;
  int failures_ = 0;
  std::set<std::string> logged_reasons_;  // some reasons of this outage, already logged
  double next_ = 0, since_ = 0;
};

/// Renews the leases of an agent on a background thread over its own connection, so that a busy loop loses no lease. If
/// the loop has not ticked for a term, it hangs, and so do its jobs: renewal then stops, and other agents take over.
class Heartbeat {
 public:
  /// Starts the thread. `wake` is called when take_directives() has something to return.
  Heartbeat(std::shared_ptr<JobQueue> queue, Milliseconds term, AgentInfo info, std::function<void()> wake,
            World& world, spdlog::logger& log);
  ~Heartbeat();  // reports to the queue that the agent leaves
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Renews a lease from now on.
  void hold(const Lease& lease);
  /// Stops renewing a lease.
  void release(const Lease& lease);
  /// Records that the loop lives, runs `jobs` jobs, and claims none because of `trouble` (empty: it claims).
  void tick(int64_t jobs, const std::string& trouble);
  /// Returns the queue's directives since the last call, by the lease's token, without `proceed`.
  std::map<std::string, Directive> take_directives();

 private:
  /// Renews all leases. Returns the seconds until the next call.
  double step();
  void renew_all();

  std::shared_ptr<JobQueue> queue_;
  Milliseconds term_;
  std::function<void()> wake_;
  World& world_;
  spdlog::logger& log_;
  ReconnectTimer link_;
  std::mutex mutex_;  // guards the members below; never held during a call to Redis, which would block the loop
  AgentInfo info_;
  bool hanging_ = false;
  double last_tick_;
  std::map<std::string, Lease> leases_;  // key: lease token
  std::map<std::string, Directive> directives_;
  std::unique_ptr<Background> background_;  // last: its thread uses the members above
};

}  // namespace foretime::jobs
