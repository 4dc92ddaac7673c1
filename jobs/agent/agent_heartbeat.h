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

/// When to talk to Redis again: after 1, 2, 4, … seconds with jitter, never more than `longest`. Of an outage each
/// reason is logged once, and its end.
class Link {
 public:
  Link(std::string who, double longest_seconds, World& world, spdlog::logger& log)
      : who_(std::move(who)), longest_(longest_seconds), world_(world), log_(log) {}
  bool open(double now) const { return now >= next_; }
  bool down() const { return failures_ > 0; }
  double next() const { return next_; }  // when to try again; 0: at once
  void failed(const std::string& what, double now);
  void worked(double now);

 private:
  std::string who_;
  double longest_;
  World& world_;
  spdlog::logger& log_;
  int failures_ = 0;
  std::set<std::string> said_;  // of this outage, a few
  double next_ = 0, since_ = 0;
};

/// Renews the leases of an agent beside its loop and over a connection of its own, so that a loop that is busy loses
/// none. When the loop has not ticked for a term, it hangs, and its jobs with it: renewing then stops, and other agents
/// take over.
class Heartbeat {
 public:
  /// `wake` is called when there are directives to take.
  Heartbeat(std::shared_ptr<JobQueue> queue, Milliseconds term, AgentInfo info, std::function<void()> wake,
            World& world, spdlog::logger& log);
  ~Heartbeat();  // says that the agent leaves
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void hold(const Lease& lease);
  void release(const Lease& lease);
  /// The loop lives, runs so many jobs, and claims none because of `trouble`.
  void tick(int64_t jobs, const std::string& trouble);
  /// What the queue wants done, by the lease's token; since the last call, proceed left out.
  std::map<std::string, Directive> take_directives();

 private:
  /// Renews all; returns the seconds until it is to be called again.
  double step();
  void renew_all();

  std::shared_ptr<JobQueue> queue_;
  Milliseconds term_;
  std::function<void()> wake_;
  World& world_;
  spdlog::logger& log_;
  Link link_;
  std::mutex mutex_;  // over all that follows; never held over a call to Redis, for which the loop would wait
  AgentInfo info_;
  bool hanging_ = false;
  double last_tick_;
  std::map<std::string, Lease> leases_;  // by token
  std::map<std::string, Directive> directives_;
  std::unique_ptr<Background> background_;  // last: it uses all of the above
};

}  // namespace foretime::jobs
