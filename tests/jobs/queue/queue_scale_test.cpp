#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "jobs/queue/redis_queue.h"
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
  queue.report(lease, report);
  queue.finish(
      lease,
      {.metrics = report.metrics, .objective = report.objective, .checkpoint = report.checkpoint, .seconds = 4.5}, 0);
}

TEST(QueueScale, AFinishedTrialTakesAtMostThreeKilobytes) {
  RedisServer server(RedisServer::Options{false, "no", {"save \"\""}});
  RedisClient client(server.url());
  RedisQueue queue(client, {.events = 100});
  queue.create_sweep({.id = "sweep", .name = "quickstart", .method = "random", .settings = std::string(4000, 's')});
  constexpr int kJobs = 3000;
  std::vector<JobSpec> specs;
  for (int i = 0; i < kJobs; ++i) specs.push_back(trial(i));
  queue.submit_all({&specs[0], 1});
  run(queue, 0);  // scripts and buffers are there
  const auto empty = used_memory(client);
  queue.submit_all(specs);
  for (int i = 1; i < kJobs; ++i) run(queue, i);
  const auto each = (used_memory(client) - empty) / kJobs;
  RecordProperty("bytes", static_cast<int>(each));
  fmt::print("{} bytes of Redis for each finished trial\n", each);
  EXPECT_LE(each, 3 * 1024);
}

}  // namespace
}  // namespace foretime::jobs
