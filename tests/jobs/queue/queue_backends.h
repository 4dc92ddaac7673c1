#pragma once

#include <string>
#include <vector>

#include "jobs/queue/redis_queue.h"
#include "jobs/redis/redis_client.h"
#include "tests/jobs/queue/memory_queue.h"
#include "tests/support/redis_server.h"

namespace foretime::jobs {

/// Where every test's clock starts.
constexpr int64_t kStart = 1'700'000'000'000;

/// One queue of either kind with a clock that the test moves, and the means to look at all that it holds.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual JobQueue& queue() = 0;
  virtual MemoryQueue::Dump dump() = 0;
  virtual std::vector<MemoryQueue::Event> events() = 0;
  void advance(int64_t milliseconds) { set_clock(now_ += milliseconds); }
  int64_t now() const { return now_; }

 protected:
  virtual void set_clock(int64_t now_ms) = 0;
  int64_t now_ = kStart;
};

class MemoryBackend final : public Backend {
 public:
  explicit MemoryBackend(QueueSettings settings = {}) : queue_(settings) { set_clock(now_); }
  MemoryQueue& queue() override { return queue_; }
  MemoryQueue::Dump dump() override { return queue_.dump(); }
  std::vector<MemoryQueue::Event> events() override { return queue_.events(); }

 private:
  void set_clock(int64_t now_ms) override { queue_.set_now_ms(now_ms); }
  MemoryQueue queue_;
};

/// The queue's scripts with the clock of tests/jobs/queue/test_clock.lua in place of Redis' own.
const Scripts& scripts_by_test_clock();

/// Keys under a prefix of its own, so that many can share one server.
class RedisBackend final : public Backend {
 public:
  RedisBackend(const RedisUrl& url, QueueSettings settings, RedisClient::Connect connect = nullptr,
               const Scripts& scripts = scripts_by_test_clock());
  RedisQueue& queue() override { return queue_; }
  MemoryQueue::Dump dump() override;
  std::vector<MemoryQueue::Event> events() override;
  RedisClient& client() { return client_; }
  std::string key(const std::string& rest) const { return "{" + settings_.prefix + "}:" + rest; }

 private:
  void set_clock(int64_t now_ms) override { client_.call({"SET", key("test_clock"), std::to_string(now_ms)}); }
  RedisClient client_;
  QueueSettings settings_;
  RedisQueue queue_;
};

/// All that a queue's keys hold, as MemoryQueue has it.
MemoryQueue::Dump dump_keys(RedisClient& client, const std::string& prefix);

/// The same over the model of Redis that simulations use.
std::unique_ptr<Backend> model_backend(QueueSettings settings);

/// A prefix that no other test of this process uses.
QueueSettings fresh_settings(QueueSettings settings = {});
/// The servers that the tests of one program share; a cluster of one node, which holds the slots that it was given: a
/// script that touches a key elsewhere fails there.
testing::RedisServer& shared_server();
testing::RedisServer& shared_cluster();
/// Gives the cluster's node the slot of one prefix.
void own_slot(RedisClient& client, const std::string& prefix);

/// Of an agent with 8 free CPUs.
inline ClaimRequest claim_request(const std::string& token, Milliseconds term = Milliseconds(30000)) {
  return {"agent", token, 8, 0, term};
}

/// How many scripts its Redis has run.
inline int64_t script_calls(RedisClient& client) {
  return std::stoll(info_field(text_of(*client.call({"INFO", "commandstats"})), "cmdstat_evalsha").substr(6));
}

/// What must hold of the keys at any time; one line for each thing that does not.
std::vector<std::string> broken_invariants(const MemoryQueue::Dump& dump,
                                           const std::vector<MemoryQueue::Event>& events);
/// Lines that only one of them has; empty where they are equal.
std::string difference(const MemoryQueue::Dump& expected, const MemoryQueue::Dump& found);

JobSpec job_named(const std::string& id);
/// The command of docs/reference/jobs.md that begins with `redis-cli ACL SETUSER name`, as arguments of Redis, for the
/// keys of a prefix.
std::vector<std::string> documented_acl(const std::string& name, const std::string& prefix = "foretime");

}  // namespace foretime::jobs
