// When agents talk to Redis: not all at one moment.

#include "jobs/agent/agent_heartbeat.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>

#include "jobs/error.h"
#include "tests/jobs/queue/memory_queue.h"

namespace foretime::jobs {
namespace {

constexpr int kAgents = 200;
constexpr Milliseconds kTerm{30'000};
constexpr double kInterval = 10, kLongest = 12.5;  // seconds: a third of the term, and a quarter more

/// A machine whose time the test moves; what runs beside is stepped by the test.
class SteppedWorld final : public World {
 public:
  explicit SteppedWorld(uint32_t seed) : random_(seed) {}
  double steady_seconds() override { return now; }
  uint64_t random_bits() override { return random_(); }
  std::unique_ptr<RunningCommand> start(SupervisedProcess::Options, const std::filesystem::path&) override {
    return nullptr;
  }
  std::unique_ptr<Background> run_beside(std::function<double()> given) override {
    step = std::move(given);
    struct Beside final : Background {
      void wake() override {}
    };
    return std::make_unique<Beside>();
  }
  std::unique_ptr<Waiter> make_waiter() override { return nullptr; }

  double now = 0;
  std::function<double()> step;

 private:
  std::mt19937_64 random_;
};

/// Agents that one command started at one moment.
class AgentsStartedTogether : public ::testing::Test {
 protected:
  AgentsStartedTogether() {
    queue_->before = [this](const std::string& call) {
      if (call != "heartbeat_agent") return;
      ++calls_;
      if (away_) throw RedisUnavailable("away");
    };
    for (int i = 0; i < kAgents; ++i) {
      worlds_.push_back(std::make_unique<SteppedWorld>(i + 1));
      AgentInfo info;
      info.name = "agent" + std::to_string(i);
      heartbeats_.push_back(std::make_unique<Heartbeat>(
          queue_, kTerm, info, [] {}, *worlds_.back(), log_));
      due_.push_back(0);
    }
  }

  /// Steps whoever is due, until `end`; returns the calls of each second from `begin` on.
  std::vector<int64_t> play(double begin, double end) {
    std::vector<int64_t> calls(static_cast<size_t>(std::ceil(end - begin)));
    for (double now = begin; now < end; now = *std::min_element(due_.begin(), due_.end())) {
      for (int i = 0; i < kAgents; ++i) {
        if (due_[i] > now) continue;
        worlds_[i]->now = now;
        heartbeats_[i]->tick(0, "");
        const int64_t before = calls_;
        const double pause = worlds_[i]->step();
        calls[static_cast<size_t>(now - begin)] += calls_ - before;
        longest_ = std::max(longest_, pause);
        due_[i] = now + pause;
      }
    }
    return calls;
  }

  int64_t calls_ = 0;
  bool away_ = false;
  std::shared_ptr<MemoryQueue> queue_ = std::make_shared<MemoryQueue>();
  spdlog::logger log_{"test", std::make_shared<spdlog::sinks::null_sink_mt>()};
  std::vector<std::unique_ptr<SteppedWorld>> worlds_;
  std::vector<std::unique_ptr<Heartbeat>> heartbeats_;
  std::vector<double> due_;
  double longest_ = 0;
};

// Promise agents/heartbeats: agents that were started together spread their heartbeats, also after an outage
TEST_F(AgentsStartedTogether, SpreadTheirHeartbeatsOverTheInterval) {
  EXPECT_EQ(play(0, 1)[0], kAgents) << "all begin at once";
  play(1, 600);
  const auto calls = play(600, 900);
  // An even spread is 20 a second. Without jitter all 200 come in one second of ten.
  EXPECT_LT(*std::max_element(calls.begin(), calls.end()), 60);
  EXPECT_GE(*std::min_element(calls.begin(), calls.end()), 1);
  EXPECT_GT(longest_, kInterval);
  EXPECT_LE(longest_, kLongest) << "twice in a row it may fail before a lease ends";
}

// Promise agents/heartbeats
TEST_F(AgentsStartedTogether, DoNotAllComeBackAtOneMomentAfterAnOutage) {
  play(0, 600);
  away_ = true;
  play(600, 660);
  away_ = false;
  const auto calls = play(660, 690);
  EXPECT_LT(*std::max_element(calls.begin(), calls.end()), 100);
  int64_t all = 0;
  for (const int64_t each : calls) all += each;
  EXPECT_GE(all, kAgents) << "each agent is back within its term";
}

}  // namespace
}  // namespace foretime::jobs
