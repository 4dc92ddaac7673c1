// Full cycles of the queue (add, claim, complete) on a Redis that runs already, for bench/queue_cycles.py. Each agent
// is a connection and a thread. Prints JSON: seconds of adding, and of all agents together until the last job is
// complete, and the bytes of Redis' memory that each finished job takes. With LINES each job reports as many lines of
// its log, and metrics, before it ends.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "bench/bench.h"
#include "jobs/queue/redis_queue.h"
#include "jobs/redis/redis_client.h"

namespace foretime::bench {
namespace {

constexpr int64_t kAtOnce = 512;  // as `foretime submit` sends them

jobs::JobSpec trial(int64_t i) {
  jobs::JobSpec spec{.id = fmt::format("{:016x}", i), .sweep = "cycles"};
  spec.trial = i;
  spec.settings = jobs::kSweepSettings;
  spec.parameters = {{"optimizer.learning_rate", "0.001"}, {"model.layers", "3"}};
  spec.metric = "holdout/mae";
  return spec;
}

void add(const jobs::RedisUrl& url, int64_t count) {
  jobs::RedisClient client(url, std::chrono::seconds(60));
  jobs::RedisQueue queue(client, {});
  queue.create_sweep(
      {.id = "cycles",
       .name = "cycles",
       .method = "grid",
       .definition = R"([{"key": "optimizer.learning_rate", "distribution": "categorical", "values": ["0.001"]},
                                        {"key": "model.layers", "distribution": "categorical", "values": ["3"]}])",
       .settings = std::string(2000, 's'),
       .metric = "holdout/mae",
       .maximize = false,
       .trials = count});
  for (int64_t from = 0; from < count; from += kAtOnce) {
    std::vector<jobs::JobSpec> some;
    for (int64_t i = from; i < std::min(count, from + kAtOnce); ++i) some.push_back(trial(i));
    queue.submit_all(some);
  }
}

/// What a trial of the quick start tells before it ends, with so many lines of its log.
jobs::JobReport report(int64_t lines) {
  jobs::JobReport report{.step = 600, .total_steps = 600, .eta_seconds = 0, .loss = 0.0123456789, .iteration = 8};
  for (const char* name : {"holdout/mae", "holdout/mape", "holdout/kendall_tau", "holdout/opa", "holdout/slowdown_1"})
    report.metrics[name] = 0.123456789012345;
  report.objective = report.metrics.at("holdout/mae");
  report.checkpoint = "0123456789abcdef/attempt-1/checkpoints/step-000600";
  for (int64_t line = 0; line < lines; ++line)
    report.log_lines.push_back(fmt::format("step {:5}  {}", line, std::string(70, '.')));
  return report;
}

int64_t memory(const jobs::RedisUrl& url) {
  jobs::RedisClient client(url, std::chrono::seconds(60));
  return std::stoll(jobs::info_field(jobs::text_of(*client.call({"INFO", "memory"})), "used_memory"));
}

/// Seconds until all jobs are complete, from the moment when all agents are connected.
double work(const jobs::RedisUrl& url, int64_t count, int64_t agents, int64_t lines) {
  std::atomic<int64_t> left{count}, ready{0};
  std::atomic<bool> go{false};
  std::mutex mutex;
  std::string failure;
  std::vector<std::thread> threads;
  for (int64_t agent = 0; agent < agents; ++agent) {
    threads.emplace_back([&, agent] {
      try {
        jobs::RedisClient client(url, std::chrono::seconds(60));
        jobs::RedisQueue queue(client, {});
        client.call({"PING"});
        ++ready;
        go.wait(false);
        const auto last = report(lines);
        jobs::JobResult result{.metrics = {{"holdout/mae", 0.125}, {"holdout/kendall_tau", 0.5}, {"holdout/opa", 0.75}},
                               .objective = 0.125};
        if (lines > 0) result = {.metrics = last.metrics, .objective = last.objective, .checkpoint = last.checkpoint};
        const auto name = fmt::format("agent{}", agent);
        // As an agent with one slot: the end of a job and the claim of the next are one call.
        int64_t i = 0;
        const auto request = [&] {
          return jobs::ClaimRequest{name, fmt::format("{}-{}", name, i++), 1, 0, std::chrono::seconds(60)};
        };
        auto lease = queue.claim(request());
        while (lease) {
          if (lines > 0) queue.report(*lease, last);
          const auto done = queue.finish_and_claim(*lease, result, 0, request());
          if (!done.finished) throw std::runtime_error("a lease was lost");
          --left;
          lease = done.next;
        }
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        failure = error.what();
        ++ready;
      }
    });
  }
  while (ready < agents) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double start = wall_seconds();
  go = true;
  go.notify_all();
  for (auto& thread : threads) thread.join();
  const double seconds = wall_seconds() - start;
  if (!failure.empty()) throw std::runtime_error(failure);
  if (left != 0) throw std::runtime_error(fmt::format("{} jobs were not completed", left.load()));
  return seconds;
}

}  // namespace
}  // namespace foretime::bench

int main(int argc, char** argv) {
  using namespace foretime::bench;
  return run(argc, argv, "SOCKET JOBS AGENTS [LINES]", 3, 4, [&] {
    foretime::jobs::RedisUrl url;
    url.socket = argv[1];
    const auto jobs = std::stoll(argv[2]), agents = std::stoll(argv[3]);
    const auto lines = argc > 4 ? std::stoll(argv[4]) : 0;
    const auto before = memory(url);
    const double adding = seconds_of(wall_seconds, [&] { add(url, jobs); });
    const double working = work(url, jobs, agents, lines);
    fmt::print("{{\"add\": {}, \"work\": {}, \"bytes_each\": {}}}\n", adding, working, (memory(url) - before) / jobs);
  });
}
