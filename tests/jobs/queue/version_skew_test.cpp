#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/queue/queue_reader.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/message_of.h"

/// Programs of different versions on one queue. A newer one is this one with higher numbers.
namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

class VersionSkew : public ::testing::Test {
 protected:
  static constexpr Protocol kNewer{.version = 3, .format = 2};
  VersionSkew()
      : settings_(fresh_settings()),
        backend_(shared_server().url(), settings_),
        newer_client_(shared_server().url()),
        newer_(newer_client_, settings_, QueueClock::test_key, kNewer) {}

  RedisQueue& queue() { return backend_.queue(); }
  ClaimRequest request() { return {"agent", fmt::format("t{}", ++tokens_), 8, 0, Milliseconds(1000)}; }

  QueueSettings settings_;
  RedisBackend backend_;
  RedisClient newer_client_;
  RedisQueue newer_;
  int tokens_ = 0;
};

TEST_F(VersionSkew, AJobOfALaterFormatWaitsForAnAgentThatReadsIt) {
  newer_.submit(job_named("new"));
  queue().submit(job_named("plain"));
  EXPECT_EQ(queue().claim(request())->job, "plain");
  EXPECT_FALSE(queue().claim(request()));
  EXPECT_TRUE(queue().waiting().empty()) << "it would keep --until-empty from ending";
  EXPECT_EQ(newer_.waiting(), (std::map<Demand, int64_t>{{{1, 0}, 1}}));
  const auto record = QueueReader(backend_.client(), settings_).job("new").value();
  EXPECT_THAT(record.unreadable, HasSubstr("its record has format 2, and this program reads 1 to 1"));
  EXPECT_THAT(testing::message_of<JobsError>([&] { queue().find("new"); }), HasSubstr("format 2"));
  const auto lease = newer_.claim(request());
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->job, "new");
  EXPECT_TRUE(newer_.finish(*lease, {}, 0));
}

/// Whoever moves such a job back to waiting, it waits where only newer agents look.
TEST_F(VersionSkew, EarlierProgramsMoveJobsOfALaterFormatWithoutRunningThem) {
  newer_.create_sweep({.id = "s", .name = "sweep", .method = "grid"});
  auto spec = job_named("new");
  spec.sweep = "s";
  newer_.submit(spec);
  const auto only_newer = [&] {
    EXPECT_FALSE(queue().claim(request()));
    auto lease = newer_.claim(request());
    EXPECT_TRUE(lease);
    return lease.value();
  };
  auto lease = only_newer();
  for (int i = 0; i < 3; ++i) backend_.advance(400), queue().reap();  // it is lost
  lease = only_newer();
  newer_.finish(lease, {.outcome = Outcome::error}, 0);
  backend_.advance(60'000);
  queue().reap();  // promotes it
  lease = only_newer();
  newer_.finish(lease, {.outcome = Outcome::failed}, 0);
  queue().retry("new");
  queue().pause("s");
  EXPECT_FALSE(newer_.claim(request()));  // sets it aside
  queue().resume("s");
  queue().set_priority("new", 3);
  lease = only_newer();
  newer_.finish(lease, {.outcome = Outcome::preempted}, 0);
  EXPECT_EQ(queue().cancel_sweep("s"), 1);
  EXPECT_FALSE(newer_.claim(request()));
}

TEST_F(VersionSkew, AQueueOfALaterProtocolRefusesEarlierPrograms) {
  queue().submit(job_named("j"));
  const auto lease = queue().claim(request()).value();
  backend_.client().call({"HSET", backend_.key("settings"), "protocol", "3"});
  const auto before = backend_.dump();
  const auto refused = [](auto call) {
    EXPECT_THAT(
        testing::message_of<JobRefused>(call),
        HasSubstr("needs programs of protocol 3, and this one has protocol 2: use the newer foretime here too"));
  };
  refused([&] { queue().submit(job_named("k")); });
  refused([&] { queue().create_sweep({.id = "s", .name = "sweep", .method = "grid"}); });
  refused([&] { queue().claim(request()); });
  refused([&] { queue().renew(lease, Milliseconds(5000)); });
  refused([&] { queue().report(lease, {}); });
  refused([&] { queue().finish(lease, {}, 0); });
  refused([&] { queue().cancel("j"); });
  refused([&] { queue().reap(); });
  EXPECT_EQ(difference(before, backend_.dump()), "");
  EXPECT_TRUE(newer_.finish(lease, {}, 0));
  EXPECT_EQ(QueueReader(backend_.client(), settings_).job("j")->state, JobState::succeeded);
}

}  // namespace
}  // namespace foretime::jobs
