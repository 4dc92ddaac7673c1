#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "jobs/queue/queue_reader.h"
#include "jobs/queue/redis_queue.h"
#include "jobs/sweep/leaderboard.h"
#include "tests/jobs/queue/queue_backends.h"

/// What large sweeps cost Redis; bench/queue_bench has the full sizes.
namespace foretime::jobs {
namespace {

using testing::RedisServer;

int64_t used_memory(RedisClient& client) {
  return std::stoll(info_field(text_of(*client.call({"INFO", "memory"})), "used_memory"));
}

/// As the quick start's trials look.
JobSpec trial(int i) {
  JobSpec spec{.id = fmt::format("{:016x}", i * 7919), .name = fmt::format("quickstart-{}", i), .sweep = "sweep"};
  spec.trial = i;
  spec.settings = kSweepSettings;
  spec.parameters = {
      {"optimizer.learning_rate", fmt::format("{}", 0.001 + 1e-7 * i)}, {"model.hidden", "64"}, {"model.layers", "3"}};
  spec.metric = "holdout/mae";
  spec.maximize = false;
  return spec;
}

void run(RedisQueue& queue, int i) {
  const auto lease =
      queue.claim({"host-17:12345:a1b2c3", fmt::format("{:032x}", i), 8, 0, Milliseconds(30000)}).value();
  JobReport report{.step = 600, .total_steps = 600, .eta_seconds = 0, .loss = 0.0123456789 + i, .iteration = 8};
  for (const auto* name : {"holdout/mae", "holdout/mape", "holdout/kendall_tau", "holdout/opa", "holdout/slowdown_1"})
    report.metrics[name] = 0.123456789012345 + 1e-6 * i;
  report.objective = report.metrics.at("holdout/mae");
  report.checkpoint = lease.job + "/attempt-1/checkpoints/step-000600";
  for (int line = 0; line < 60; ++line)
    report.log_lines.push_back(fmt::format("step {:5}  {}", line, std::string(70, '.')));
  report.history = std::string(i % 2 == 0 ? 900 : Limits::kHistory, 'h');
  queue.report(lease, report);
  queue.finish(lease,
               {.metrics = report.metrics,
                .objective = report.objective,
                .checkpoint = report.checkpoint,
                .seconds = 4.5,
                .history = std::string(Limits::kEndedHistory, 'e')},
               0);
}

/// Bytes of Redis for each of many finished trials, a minute after they ended.
int64_t memory_of_a_finished_trial(const std::vector<std::string>& configuration) {
  RedisServer server(RedisServer::Options{false, "no", configuration});
  RedisClient client(server.url());
  RedisQueue queue(client, {.events = 100}, scripts_by_test_clock());
  const auto set_clock = [&](int64_t now) { client.call({"SET", "{foretime}:test_clock", std::to_string(now)}); };
  set_clock(kStart);
  queue.create_sweep({.id = "sweep", .name = "quickstart", .method = "random", .settings = std::string(4000, 's')});
  constexpr int kJobs = 3000;
  std::vector<JobSpec> specs;
  for (int i = 0; i < kJobs; ++i) specs.push_back(trial(i));
  queue.submit_all({&specs[0], 1});
  run(queue, 0);  // scripts and buffers are there
  const auto empty = used_memory(client);
  queue.submit_all(specs);
  for (int i = 1; i < kJobs; ++i) run(queue, i);
  const auto at_once = used_memory(client) - empty;
  EXPECT_LE(at_once, kJobs * 3 * 1024 + 1000 * 8 * 1024) << "a thousand whole logs at most";
  set_clock(kStart + 60'000);
  while (queue.reap().more) {
  }
  return (used_memory(client) - empty) / kJobs;
}

// Promise agents/idle
TEST(QueueScale, AFinishedTrialTakesAtMostThreeKilobytesAMinuteAfterItsEnd) {
  const auto each = memory_of_a_finished_trial({"save \"\""});
  const auto compact = memory_of_a_finished_trial({"save \"\"", "hash-max-listpack-value 1024"});
  RecordProperty("bytes", static_cast<int>(each));
  fmt::print("{} bytes of Redis for each finished trial, {} with long values in listpacks\n", each, compact);
  EXPECT_LE(each, 3 * 1024);
  EXPECT_LE(compact, 2 * 1024) << "as in the embedded Redis";
}

TEST(QueueScale, RankingReadsLittleAndAgreesWithWholeRecords) {
  RedisServer server(RedisServer::Options{false, "no", {"save \"\""}});
  RedisClient client(server.url());
  RedisQueue queue(client, {});
  queue.create_sweep({.id = "sweep", .name = "quickstart", .method = "random", .settings = std::string(4000, 's')});
  constexpr int kJobs = 400;
  std::vector<JobSpec> specs;
  for (int i = 0; i < kJobs; ++i) specs.push_back(trial(i));
  queue.submit_all(specs);
  // Every kind of end, some with equal values, and some that run or wait.
  for (int i = 0; i < kJobs - 20; ++i) {
    const auto lease = queue.claim({"agent", fmt::format("t{}", i), 8, 0, Milliseconds(30000)}).value();
    const double value = (i * 7919 % 97) / 97.0;
    if (i % 11 != 0)
      queue.report(lease, {.iteration = 1, .objective = value - 0.1, .metrics = {{"holdout/mae", value - 0.1}}});
    if (i % 13 == 0) continue;
    JobResult result{.outcome = i % 5 == 0 ? Outcome::stopped : i % 7 == 0 ? Outcome::failed : Outcome::succeeded};
    if (i % 3 != 0) result.metrics = {{"holdout/mae", value}, {"holdout/tau", 1 - value}};
    if (i % 3 != 0) result.objective = value;
    queue.finish(lease, result, 0);
  }
  QueueReader reader(client, {});
  const auto ids = reader.ids_of_sweep("sweep");
  const auto net_output = [&] {
    return std::stoll(info_field(text_of(*client.call({"INFO", "stats"})), "total_net_output_bytes"));
  };
  const auto before = net_output();
  const auto records = reader.jobs(ids);
  const auto whole = net_output() - before;
  for (const std::string metric : {"holdout/mae", "holdout/tau"}) {
    for (const bool maximize : {false, true}) {
      const auto start = net_output();
      std::vector<Standing> standings;
      reader.scan(ids, standing_fields(), [&](size_t index, const std::vector<std::string_view>& values) {
        if (const auto standing = standing_of(static_cast<uint32_t>(index), values, metric))
          standings.push_back(*standing);
      });
      EXPECT_LT(net_output() - start, whole * 3 / 5);
      const auto rows = ranked_rows(standings, {}, maximize);
      const auto expected = leaderboard_rows(records, metric, maximize, false);
      ASSERT_EQ(rows.size(), expected.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(ids[rows[i].trials.at(0)], expected[i].trials.at(0).spec.id) << metric << i;
        EXPECT_EQ(rows[i].value, expected[i].value);
      }
    }
  }
  int64_t unreadable = 0;
  const auto states = reader.states(ids, unreadable);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(states[i], records[i].state);
  EXPECT_EQ(unreadable, 0);
}

TEST(QueueScale, RowsOfSeveralSeedsRankByTheirMean) {
  const std::vector<Standing> standings = {{0, 1.0}, {1, 5.0}, {2, 2.0}, {3, std::nullopt}, {4, std::nullopt}};
  const auto rows = ranked_rows(standings, {0, 1, 0, 1, 2}, true);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].trials, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(rows[0].value, 5.0);
  EXPECT_EQ(rows[1].trials, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(rows[1].value, 1.5);
  EXPECT_FALSE(rows[2].value);
}

}  // namespace
}  // namespace foretime::jobs
