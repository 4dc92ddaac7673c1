#include <string>

#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/queue/queue_reader.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

/// Programs of different versions on one queue.
namespace foretime::jobs {
namespace {

class VersionSkew : public ::testing::Test {
 protected:
  VersionSkew() : settings_(fresh_settings()), backend_(shared_server().url(), settings_) {}

  RedisQueue& queue() { return backend_.queue(); }
  ClaimRequest request() { return {"agent", "t" + std::to_string(++tokens_), 8, 0, Milliseconds(1000)}; }
  QueueReader reader() { return {backend_.client(), settings_}; }

  /// Every call is refused in one sentence, and changes nothing.
  void expect_refused(const Lease& lease, const std::string& found) {
    const auto before = backend_.dump();
    const auto refused = [&](auto call) { EXPECT_MESSAGE(testing::message_of<JobRefused>(call), found); };
    refused([&] { queue().submit(job_named("k")); });
    refused([&] { queue().create_sweep({.id = "s", .name = "sweep", .method = "grid"}); });
    refused([&] { queue().claim(request()); });
    refused([&] { queue().renew(lease, Milliseconds(5000)); });
    refused([&] { queue().report(lease, {}); });
    refused([&] { queue().finish(lease, {}, 0); });
    refused([&] { queue().finish_and_claim(lease, {}, 0, request()); });
    refused([&] { queue().cancel("j"); });
    refused([&] { queue().reap(); });
    refused([&] { reader().job("j"); });
    refused([&] { reader().statistics(); });
    EXPECT_EQ(difference(before, backend_.dump()), "");
  }

  QueueSettings settings_;
  RedisBackend backend_;
  int tokens_ = 0;
};

// Promise redis/version: a queue of another version is refused
TEST_F(VersionSkew, AQueueOfAnotherProtocolIsRefused) {
  queue().submit(job_named("j"));
  const auto lease = queue().claim(request()).value();
  for (const auto* other : {"0", "2", "3", "1.0"}) {
    backend_.client().call({"HSET", backend_.key("settings"), "protocol", other});
    expect_refused(lease, other);
  }
  backend_.client().call({"HDEL", backend_.key("settings"), "protocol"});
  expect_refused(lease, "none");
  backend_.client().call({"HSET", backend_.key("settings"), "protocol", std::to_string(kQueueProtocol)});
  EXPECT_TRUE(queue().finish(lease, {}, 0));
  EXPECT_EQ(reader().job("j")->state, JobState::succeeded);
}

TEST_F(VersionSkew, TheFirstCallMarksAQueueWithTheProtocol) {
  EXPECT_TRUE(reader().ids_in(JobState::waiting, 10).empty());
  EXPECT_FALSE(queue().claim(request()));
  EXPECT_EQ(text_of(*backend_.client().call({"HGET", backend_.key("settings"), "protocol"})),
            std::to_string(kQueueProtocol));
}

}  // namespace
}  // namespace foretime::jobs
