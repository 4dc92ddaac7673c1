#pragma once

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/message_of.h"

namespace foretime::jobs {

/// Why the queue refuses a call.
template <class Call>
std::string refusal(Call&& call) {
  return foretime::testing::message_of<JobRefused>(std::forward<Call>(call));
}

/// One suite for every queue: the reference in memory, the model of Redis that simulations use, Redis, and Redis as a
/// node of a cluster that holds the slot of the test's prefix and, but for other tests' slots, no other: a key without
/// the hash tag is an error there.
class QueueContract : public ::testing::TestWithParam<std::string> {
 protected:
  QueueContract() { make({}); }

  void make(QueueSettings settings) {
    settings = fresh_settings(settings);
    if (GetParam() == "memory") {
      backend_ = std::make_unique<MemoryBackend>(settings);
    } else if (GetParam() == "model") {
      backend_ = model_backend(settings);
    } else {
      auto& server = GetParam() == "redis" ? shared_server() : shared_cluster();
      if (GetParam() == "cluster") {
        RedisClient client(server.url());
        own_slot(client, settings.prefix);
      }
      backend_ = std::make_unique<RedisBackend>(server.url(), settings);
    }
  }
  void TearDown() override {
    for (const auto& broken : broken_invariants(backend_->dump(), backend_->events())) ADD_FAILURE() << broken;
  }

  JobQueue& queue() { return backend_->queue(); }
  void advance(int64_t milliseconds) { backend_->advance(milliseconds); }
  std::optional<Lease> claim(const std::string& agent = "a", int64_t cpus = 8, int64_t gpus = 0) {
    return queue().claim({agent, fmt::format("token{}", ++tokens_), cpus, gpus, Milliseconds(30000)});
  }
  /// Submits and claims; for tests of what comes after.
  Lease leased(const std::string& id) {
    queue().submit(job_named(id));
    return claim().value();
  }
  bool finish(const Lease& lease, Outcome outcome, const std::string& error = "") {
    return queue().finish(lease, {.outcome = outcome, .error = error}, 0);
  }
  JobState state(const std::string& id) { return queue().find(id).value().state; }
  JobSpec trial(const std::string& sweep, int64_t number) {
    auto spec = job_named(sweep + "-" + std::to_string(number));
    spec.sweep = sweep;
    spec.trial = number;
    return spec;
  }
  void create(const std::string& id, HalvingRule rule = {}, bool maximize = true) {
    EXPECT_TRUE(queue().create_sweep(
        {.id = id, .name = "sweep " + id, .method = "grid", .maximize = maximize, .halving = std::move(rule)}));
  }

  std::unique_ptr<Backend> backend_;
  int tokens_ = 0;
};

}  // namespace foretime::jobs
