#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <spdlog/logger.h>

#include "base/no_copy.h"
#include "jobs/agent/world.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

constexpr double kLongestPause = 20;  // seconds between two attempts to reach Redis

/// Decides when to call Redis again after failures: after 1, 2, 4, … seconds, at most `longest_seconds`, changed at
/// random by up to a quarter. Logs each of the first five reasons of an outage once, and the end of the outage.
class ReconnectTimer {
 public:
  ReconnectTimer(std::string who, double longest_seconds, World& world, spdlog::logger& log)
      : who_(std::move(who)), longest_(longest_seconds), world_(world), log_(log) {}
  bool open(double now) const { return now >= next_; }  // whether Redis may be called
  bool down() const { return failures_ > 0; }           // whether the last call failed
  double next() const { return next_; }                 // time of the next attempt; 0: at once
  /// Records a call that failed for the reason `what`, and delays the next one.
  void failed(const std::string& what, double now);
  void worked(double now);  // records a successful call

 private:
  std::string who_;
  double longest_;
  World& world_;
  spdlog::logger& log_;
  int failures_ = 0;
  std::set<std::string> logged_reasons_;  // reasons of this outage that were logged
  double next_ = 0, since_ = 0;           // times of the next attempt and of the first failure
};

/// Renews the leases of an agent on a background thread over a separate connection, so that a busy loop loses no lease.
/// If the loop has not called tick() for a lease term, it hangs: renewal then stops, and other agents take its jobs.
class Heartbeat : NoCopy {
 public:
  /// Starts the thread. `wake` is called when take_directives() has something to return.
  Heartbeat(std::shared_ptr<JobQueue> queue, Milliseconds term, AgentInfo info, std::function<void()> wake,
            World& world, spdlog::logger& log);
  ~Heartbeat();  // reports to the queue that the agent leaves, unless Redis is down

  void hold(const Lease& lease);     // renews a lease from now on
  void release(const Lease& lease);  // stops renewing a lease, and drops its directives
  /// Records that the loop lives and runs `jobs` jobs. `trouble` is the reason why it claims none; empty: it claims.
  void tick(int64_t jobs, const std::string& trouble);
  /// Returns the queue's newest directives since the last call, without `proceed`. Key: token of the lease.
  std::map<std::string, Directive> take_directives();

 private:
  /// Calls renew_all() unless Redis is down. Returns the seconds until the next call.
  double step();
  void renew_all();  // renews all leases and the agent's record, unless the loop hangs

  std::shared_ptr<JobQueue> queue_;
  Milliseconds term_;
  std::function<void()> wake_;
  World& world_;
  spdlog::logger& log_;
  ReconnectTimer link_;
  std::mutex mutex_;  // guards the members below; never held during a call to Redis, which would block the loop
  AgentInfo info_;
  bool hanging_ = false;                 // the loop hung at the last renew_all()
  double last_tick_;                     // time of the last tick()
  std::map<std::string, Lease> leases_;  // key: lease token
  std::map<std::string, Directive> directives_;
  std::unique_ptr<Background> background_;  // last: its thread uses the members above
};

}  // namespace foretime::jobs
