#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "jobs/agent/agent.h"
#include "jobs/error.h"
#include "tests/jobs/agent/training_settings.h"
#include "tests/jobs/queue/memory_queue.h"
#include "tests/support/processes.h"
#include "tests/support/scratch.h"

namespace foretime::testing {

/// What goes wrong between an agent and its queue.
struct Faults {
  std::atomic<bool> away{false};  // RedisUnavailable at every call
  // RedisDenied: a right that is missing.
  std::atomic<bool> refuses_claims{false}, refuses_looks{false}, refuses_artifacts{false};
  std::atomic<bool> refuses_reports{false}, refuses_reaps{false};  // RedisRefused: a key that is damaged
  std::atomic<int> refuses_next{0};  // likewise, so many results that come with a claim; the result alone is taken
  std::atomic<int> reaps{0};
};

/// The machine's own world, with a clock that goes `speed` times as fast for the agent's loop, so that its longer
/// pauses pass within a test.
class FastWorld : public jobs::World {
 public:
  explicit FastWorld(double speed) : speed_(speed) {}
  double steady_seconds() override { return speed_ * jobs::real_world().steady_seconds(); }
  uint64_t random_bits() override { return jobs::real_world().random_bits(); }
  std::unique_ptr<jobs::RunningCommand> start(jobs::SupervisedProcess::Options command,
                                              const std::filesystem::path& folder) override {
    return jobs::real_world().start(std::move(command), folder);
  }
  std::unique_ptr<jobs::Background> run_beside(std::function<double()> step) override {
    return jobs::real_world().run_beside([step = std::move(step), speed = speed_] { return step() / speed; });
  }
  std::unique_ptr<jobs::Waiter> make_waiter() override {
    struct Fast final : jobs::Waiter {
      explicit Fast(double speed) : speed_(speed) {}
      void wait(std::vector<pollfd>& descriptors, double seconds) override {
        real_->wait(descriptors, seconds / speed_);
      }
      void wake() override { real_->wake(); }
      double speed_;
      std::unique_ptr<jobs::Waiter> real_ = jobs::real_world().make_waiter();
    };
    return std::make_unique<Fast>(speed_);
  }

 private:
  double speed_;
};

/// Keeps what is logged; any thread may read the text while others log.
class TextSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    text_.append(line.data(), line.size());
  }
  void flush_() override {}
  std::string text_;
};

/// An agent in a thread of its own, with fake_trial as its program.
class RunningAgent {
 public:
  RunningAgent(jobs::AgentOptions options, jobs::QueueFactory make_queue, jobs::Proposer proposer = {},
               jobs::World& world = jobs::real_world())
      : log_("agent", text_),
        agent_(std::move(options), std::move(make_queue), std::move(proposer), log_, world),
        thread_([this] {
          try {
            finished_ = agent_.run();
          } catch (const std::exception& error) {
            error_ = error.what();
          }
        }) {}
  ~RunningAgent() {
    stop();
    stop();
    join();
  }
  void stop() { agent_.request_stop(); }
  int64_t join() {
    if (thread_.joinable()) thread_.join();
    return finished_;
  }
  std::string error() {
    join();
    return error_;
  }
  std::string log() const { return text_->text(); }

 private:
  std::shared_ptr<TextSink> text_ = std::make_shared<TextSink>();
  spdlog::logger log_;
  jobs::Agent agent_;
  int64_t finished_ = -1;
  std::string error_;
  std::thread thread_;  // last: it uses all of the above
};

class AgentTest : public ::testing::Test {
 protected:
  explicit AgentTest(const jobs::QueueSettings& settings = quick())
      : queue_(settings), data_(scratch_.path() / "data"), runs_(scratch_.path() / "runs") {
    std::filesystem::create_directories(data_);
    std::ofstream(data_ / "README") << "an empty data root is one that is not mounted\n";
    options_.name = "tester";
    options_.cpus = 2;
    options_.roots.data = {data_};
    options_.roots.runs = runs_;
    options_.program = FORETIME_FAKE_TRIAL;
    options_.stall_seconds = 6000;  // far away, also by the clock of a FastWorld
    options_.stop_grace_seconds = 20;
    options_.drain_seconds = 40;
    options_.until_empty = true;
  }
  static jobs::QueueSettings quick() { return {.backoff_base = jobs::Milliseconds(20)}; }

  /// A training job that runs `script`.
  jobs::JobSpec trial(const std::string& name, const std::string& script) {
    const auto file = data_ / (name + ".script");
    std::ofstream(file) << script;
    jobs::JobSpec spec{.kind = jobs::JobKind::train,
                       .name = name,
                       .settings = training_settings(data_.string(), file.filename().string()),
                       .metric = "valid/kendall_tau"};
    spec.id = jobs::job_id(spec);
    return spec;
  }
  std::string submit(const jobs::JobSpec& spec) {
    EXPECT_TRUE(queue_.submit(spec));
    return spec.id;
  }
  std::string submit(const std::string& name, const std::string& script) { return submit(trial(name, script)); }

  std::unique_ptr<RunningAgent> start_agent(jobs::Proposer proposer = {}) {
    queue_.before = [this](const std::string& call) {
      {
        const std::lock_guard lock(calls_mutex_);
        ++calls_[call];
      }
      if (faults_.away) throw jobs::RedisUnavailable("redis at nowhere: connection refused");
      if (call == "reap") ++faults_.reaps;
      if (call == "finish_and_claim" && faults_.refuses_next > 0 && faults_.refuses_next-- > 0)
        throw jobs::RedisRefused("redis at nowhere: WRONGTYPE");
      if ((faults_.refuses_reports && call == "report") || (faults_.refuses_reaps && call == "reap"))
        throw jobs::RedisRefused("redis at nowhere: WRONGTYPE");
      if ((faults_.refuses_claims && call == "claim") || (faults_.refuses_looks && call == "none_in") ||
          (faults_.refuses_artifacts && call == "artifacts"))
        throw jobs::RedisDenied("redis at nowhere: NOPERM");
    };
    const std::shared_ptr<jobs::JobQueue> not_owned(std::shared_ptr<void>(), &queue_);
    return std::make_unique<RunningAgent>(
        options_, [not_owned] { return not_owned; }, std::move(proposer), *world_);
  }
  /// Runs an agent until every job has ended.
  int64_t run_all(jobs::Proposer proposer = {}) { return start_agent(std::move(proposer))->join(); }

  jobs::JobRecord job(const std::string& id) { return queue_.find(id).value(); }
  bool reaches(const std::string& id, const std::function<bool(const jobs::JobRecord&)>& condition) {
    return eventually([&] { return condition(job(id)); });
  }
  std::string log_of(const std::string& id) {
    std::string text;
    for (const auto& line : queue_.log(id)) text += line + "\n";
    return text;
  }

  Scratch scratch_;
  jobs::MemoryQueue queue_;
  Faults faults_;
  std::mutex calls_mutex_;
  std::map<std::string, int64_t> calls_;  // of the queue, by name
  std::filesystem::path data_, runs_;
  jobs::AgentOptions options_;
  jobs::World* world_ = &jobs::real_world();
};

}  // namespace foretime::testing
