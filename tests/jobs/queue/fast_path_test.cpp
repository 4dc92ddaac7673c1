#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/paths.h"

/// The fast path from the end of a job to the next claim (jobs/queue/scripts/fast_paths/finish.lua) beside finish.lua.
namespace foretime::jobs {
namespace {

/// Returns the scripts with `to` in place of `from`, a part of the fast path.
Scripts edited(const std::string& from, const std::string& to) {
  auto scripts = scripts_by_test_clock();
  auto text = scripts.at("finish").text;
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("finish.lua no longer has " + from.substr(0, 80));
  scripts["finish"] = script_of(text.replace(at, from.size(), to));
  return scripts;
}

/// Returns the scripts with a fast path that counts how often it is taken, in a key of the test.
const Scripts& counting_scripts() {
  static const Scripts all = edited("  -- Nothing was written up to here. First what is removed",
                                    "  call('INCR', P .. 'test_fast_paths')\n  --");
  return all;
}

/// Returns the scripts without the fast path.
const Scripts& slow_scripts() {
  static const Scripts all =
      edited(files().read((testing::source_dir() / "jobs/queue/scripts/fast_paths/finish.lua").string()), "");
  return all;
}

/// Two queues that are told the same; one has no fast path.
class FastPath : public ::testing::Test {
 protected:
  FastPath()
      : short_(shared_server().url(), fresh_settings(), nullptr, counting_scripts()),
        long_(shared_server().url(), fresh_settings(), nullptr, slow_scripts()) {
    for (auto* queue : {&short_.queue(), &long_.queue()}) {
      for (const auto* sweep : {"s", "t"})
        queue->create_sweep(
            {.id = sweep, .name = sweep, .method = "grid", .settings = "trainer: {}\n", .metric = "opa"});
    }
    // The first end writes the clock, which is none of the fast path's work.
    for (auto* queue : {&short_.queue(), &long_.queue()}) {
      queue->submit(job_named("very-first"));
      queue->finish(queue->claim(claim_request("very-first")).value(), {}, 0.5);
    }
  }

  /// What both answer.
  template <class Call>
  auto both(const Call& call) {
    for (auto* backend : {&short_, &long_}) backend->advance(10);
    auto answer = call(short_.queue());
    EXPECT_EQ(answer, call(long_.queue()));
    return answer;
  }

  void submit(const JobSpec& spec) {
    both([&](RedisQueue& queue) { return queue.submit(spec); });
  }
  std::string claim() {
    return both([&](RedisQueue& queue) { return shown(queue, queue.claim(next_request())); });
  }
  std::string end_and_claim(const JobResult& result) {
    return both([&](RedisQueue& queue) {
      const auto done = queue.finish_and_claim(leases_.at(&queue), result, 0.5, next_request());
      return fmt::format("{} {}", done.finished, shown(queue, done.next));
    });
  }
  void report(const JobReport& report) {
    both([&](RedisQueue& queue) { return queue.report(leases_.at(&queue), report); });
  }

  int64_t taken_so_far(RedisBackend& backend) {
    const auto text = text_of(*backend.client().call({"GET", backend.key("test_fast_paths")}));
    return text.empty() ? 0 : std::stoll(text);
  }
  void expect_equal() {
    EXPECT_EQ(difference(long_.dump(), short_.dump()), "");
    EXPECT_EQ(long_.events(), short_.events());
    for (const auto& broken : broken_invariants(short_.dump(), short_.events())) ADD_FAILURE() << broken;
  }

  ClaimRequest request_{.agent = "agent", .token = "t", .free_cpus = 4, .free_gpus = 2, .term = Milliseconds(30000)};
  RedisBackend short_, long_;

  std::map<RedisQueue*, Lease> leases_;

 private:
  ClaimRequest next_request() {
    auto request = request_;
    request.token += std::to_string(tokens_++ / 2);
    return request;
  }
  std::string shown(RedisQueue& queue, const std::optional<Lease>& lease) {
    if (!lease) return "nothing";
    leases_[&queue] = *lease;
    return fmt::format("{} {} {} {} {} {} {} {} {}", lease->job, lease->agent, lease->fence, lease->token,
                       lease->attempt, lease->failed_on, lease->deadline_ms, lease->checkpoint, lease->spec.settings);
  }
  int tokens_ = 0;
};

TEST_F(FastPath, LeavesWhatTheEndAndAClaimLeave) {
  for (int i = 0; i < 120; ++i) {
    auto spec = job_named(fmt::format("j{:03}", i));
    spec.maximize = i % 2 == 0;
    spec.max_attempts = 3 - i % 2;
    spec.resources = {.ranks = 1 + i % 5 / 4, .cpus = 1 + i % 2, .gpus = i % 3 == 0 ? 1 : 0};
    spec.priority = i % 4 - 1;
    if (i / 24 > 0) {
      spec.sweep = i / 24 == 3 ? "t" : "s";
      spec.trial = i;
      spec.settings = kSweepSettings;
    }
    submit(spec);
  }
  const std::array<std::optional<double>, 4> objectives = {0.5, {}, 0.25, 0.75};
  const std::array<std::string, 3> checkpoints = {"", "runs/end", kNoCheckpoint};
  EXPECT_NE(claim(), "nothing");
  for (int i = 0; i < 119; ++i) {
    if (i % 3 > 0) {
      JobReport first{.step = i % 4 * 10, .total_steps = 20, .eta_seconds = 1, .loss = 0.5, .iteration = i % 7};
      if (i % 3 == 1) first.objective = 0.5;
      if (i % 7 == 1) first.checkpoint = "runs/first";
      if (i % 7 == 2) first.log_lines = {"one", "two"};
      if (i % 11 == 3) first.history = "loss 1 AAAA\n";
      report(first);
    }
    if (i % 6 == 4) both([&](RedisQueue& queue) { return queue.renew(leases_.at(&queue), Milliseconds(30000)); });
    JobResult result{.objective = objectives[static_cast<size_t>(i % 4)],
                     .checkpoint = checkpoints[static_cast<size_t>(i % 3)],
                     .seconds = i % 4 * 0.5};
    if (i % 5 > 1) result.metrics = {{"opa", 0.5}, {"loss", 1.0 / (1 + i)}};
    if (i % 13 == 5) result.outcome = Outcome::stopped;
    if (i % 17 == 6) result.outcome = Outcome::failed;
    ASSERT_NE(end_and_claim(result), "true nothing") << i;
  }
  EXPECT_EQ(end_and_claim({}), "true nothing");
  expect_equal();
  EXPECT_GT(taken_so_far(short_), 40);
}

TEST_F(FastPath, ALeaseThatWasGracedBeforeTheFirstReportLeavesNoMark) {
  submit(job_named("a"));
  submit(job_named("b"));
  claim();
  for (auto* backend : {&short_, &long_}) backend->client().call({"HSET", backend->key("job:a"), "graced", "1"});
  EXPECT_NE(end_and_claim({}), "true nothing");
  expect_equal();
  EXPECT_EQ(taken_so_far(short_), 1);
}

/// Each of these is left to finish.lua, and ends as it ends it.
TEST_F(FastPath, IsNotTakenWhereAnythingIsOutOfTheOrdinary) {
  const auto job = [](const std::string& id) {
    auto spec = job_named(id);
    spec.sweep = "s";
    spec.settings = kSweepSettings;
    return spec;
  };
  for (const auto* id : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "k"}) submit(job(id));
  auto child = job("child");
  child.after = {"b"};
  submit(child);
  claim();
  const auto taken = [&](const JobResult& result) {
    const auto before = taken_so_far(short_);
    EXPECT_EQ(end_and_claim(result).substr(0, 5), "true ");
    expect_equal();
    return taken_so_far(short_) - before;
  };
  EXPECT_EQ(taken({}), 1);                                        // a, b
  EXPECT_EQ(taken({}), 0) << "its child is unblocked";            // b, c
  EXPECT_EQ(taken({.outcome = Outcome::preempted}), 0);           // c, which comes again
  EXPECT_EQ(taken({.outcome = Outcome::error}), 0);               // c, d
  EXPECT_EQ(taken({}), 0) << "a retry waits, and is looked for";  // d, e
  for (auto* backend : {&short_, &long_}) backend->advance(20'000);
  both([&](RedisQueue& queue) { return queue.renew(leases_.at(&queue), Milliseconds(30000)); });
  EXPECT_EQ(taken({}), 0) << "the retry is due";  // e, c
  EXPECT_EQ(taken({}), 1);                        // c, f
  both([](RedisQueue& queue) { return queue.pause("s"), 0; });
  EXPECT_EQ(end_and_claim({}), "true nothing");
  both([](RedisQueue& queue) { return queue.resume("s"), 0; });
  claim();  // g
  both([](RedisQueue& queue) { return queue.pause(""), 0; });
  EXPECT_EQ(end_and_claim({}), "true nothing");
  both([](RedisQueue& queue) { return queue.resume(""), 0; });
  claim();  // h
  for (auto* backend : {&short_, &long_}) backend->advance(1000);
  EXPECT_EQ(taken({}), 0) << "that an agent is alive is news";  // h, i
  auto elastic = job("elastic");
  elastic.resources.most_ranks = 2;
  elastic.priority = 5;
  submit(elastic);
  EXPECT_EQ(taken({}), 0) << "it gets the ranks that are free";  // i, elastic
  auto large = job("large");
  large.resources.cpus = 2;
  large.priority = 5;
  submit(large);
  EXPECT_EQ(taken({}), 1);                                          // elastic, large
  EXPECT_EQ(taken({}), 0) << "where it waited is empty, and goes";  // large, k
  const auto old = leases_;
  EXPECT_EQ(taken({}), 1);  // k, child
  leases_ = old;
  EXPECT_EQ(taken({}), 0) << "the answer was lost, and the claim has another token";
  leases_.at(&short_.queue()).token = leases_.at(&long_.queue()).token = "forged";
  EXPECT_EQ(end_and_claim({}).substr(0, 5), "false");
  expect_equal();
}

/// The answer of the fast path was lost: the same call again, or its halves.
TEST_F(FastPath, IsRepeatedAfterALostAnswer) {
  for (const auto* id : {"a", "b", "c"}) submit(job_named(id));
  claim();
  const auto first = leases_.at(&short_.queue());
  const ClaimRequest next{"agent", "next", 4, 0, Milliseconds(30000)};
  auto& queue = short_.queue();
  const auto done = queue.finish_and_claim(first, {.objective = 0.5}, 0, next);
  ASSERT_TRUE(done.next);
  EXPECT_EQ(taken_so_far(short_), 1);
  const auto before = short_.dump();
  const auto again = queue.finish_and_claim(first, {.objective = 0.5}, 0, next);
  EXPECT_TRUE(again.finished);
  EXPECT_TRUE(queue.finish(first, {.objective = 0.5}, 0));
  const auto alone = queue.claim(next);
  for (const auto& lease : {again.next, alone}) {
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->job, done.next->job);
    EXPECT_EQ(lease->fence, done.next->fence);
    EXPECT_EQ(lease->spec, done.next->spec);
  }
  EXPECT_EQ(difference(before, short_.dump()), "");
}

}  // namespace
}  // namespace foretime::jobs
