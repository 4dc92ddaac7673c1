#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "jobs/redis/redis_client.h"
#include "tests/simulation/redis/redis_model.h"
#include "tests/simulation/scheduler.h"

namespace foretime::simulation {

/// A Redis behind a network: requests and answers take time, get lost, or arrive when nobody waits any more; the server
/// crashes, and may forget what it had not synced.
class SimulatedRedis {
 public:
  /// `sync_always`: appendfsync always; otherwise everysec.
  SimulatedRedis(Scheduler& scheduler, bool sync_always);

  /// A transport for a process on a node, by which RedisClient connects. `notify` is called when something was
  /// published that it subscribed to, or that connection broke.
  std::unique_ptr<jobs::RedisTransport> connect(int64_t node, std::function<void()> notify = nullptr);

  RedisModel& model() { return model_; }
  /// Its clock, milliseconds since 1970, and how far somebody moved it.
  int64_t now_ms() const { return (kEpoch_us + scheduler_.now() + clock_offset_us_) / 1000; }
  void move_clock(int64_t seconds) { clock_offset_us_ += seconds * 1'000'000; }
  void crash();  // for good measure loses part of its last second, unless it syncs always
  void restart() { up_ = true; }
  bool up() const { return up_; }
  bool sync_always() const { return sync_always_; }
  /// When it crashed last; before the beginning where it never did.
  Time crashed_at() const { return crashed_at_; }

  std::set<int64_t> cut_off;  // nodes that do not reach it
  double loss = 0;            // probability that a request or an answer is lost
  double delay = 0;           // probability that one takes up to a minute
  /// Asked for each request on its way; true: whoever is asked delivers it later, or never.
  std::function<bool(int64_t node, const std::vector<std::vector<std::string>>& calls, std::function<void()> deliver)>
      hold_back;
  /// Called after each command that arrived, before what it wrote is synced.
  std::function<void(const std::vector<std::string>& call, const Answer& answer)> changed;

 private:
  static constexpr int64_t kEpoch_us = 1'700'000'000'000'000;
  struct Conversation;
  class Transport;
  /// `certain`: also where the client has given up the connection.
  void deliver(const std::shared_ptr<Conversation>& conversation, const std::vector<std::vector<std::string>>& calls,
               bool certain);
  void answer(const std::shared_ptr<Conversation>& conversation, Answer answer);
  Time latency();
  bool lost(const Conversation& conversation);

  Scheduler& scheduler_;
  RedisModel model_;
  bool sync_always_, up_ = true;
  int64_t clock_offset_us_ = 0, life_ = 0;
  Time synced_at_ = 0, asked_at_ = 0, crashed_at_ = std::numeric_limits<Time>::min() / 2;
  std::map<std::string, std::vector<std::weak_ptr<Conversation>>> subscribers_;
};

}  // namespace foretime::simulation
