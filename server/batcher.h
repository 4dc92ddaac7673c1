#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace foretime::server {

/// Candidates of one request, in the form that its target takes.
struct Work {
  int64_t count = 0;
  std::vector<int8_t> layouts = {};          // [count, configurable, 18]
  std::vector<float> tiles = {};             // [count, 24]
  std::vector<std::string_view> texts = {};  // [count]; they live until the request is answered
};

struct Scored {
  std::vector<float> scores = {};    // [count]; +infinity where `failed`
  std::vector<float> failures = {};  // [count] chances not to build or run, or empty; NaN where `failed`
  int64_t failed = 0;
  std::string first_failure = {};                  // "3: why"
  std::vector<std::string> unknown_machines = {};  // [count] that the model guesses, "" elsewhere; empty: none
  int64_t requests = 1;                            // that were scored in one call
};

/// What candidates are scored of: a graph, a workload, or a model of programs. Any number of threads may use one.
class Target {
 public:
  virtual ~Target() = default;
  virtual Scored score(const Work& work) const = 0;
  /// Whether candidates of several requests may be scored in one call: scores must not depend on each other.
  virtual bool joins() const = 0;
};

/// Scores by a fixed number of threads. Requests for one target that come within a window, or while all threads are
/// busy, become one call, since what a graph's candidates have in common is then computed once.
class Batcher {
 public:
  /// `window`: that a request waits for others. `most`: candidates of one call.
  Batcher(int64_t threads, std::chrono::microseconds window, int64_t most);
  /// Scores what is waiting first.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// Returns when the work is scored. Throws what scoring it alone throws: others in its call do not matter.
  Scored score(const std::shared_ptr<const Target>& target, Work work);
  /// From now on nobody waits for others.
  void hurry();

 private:
  struct Request {
    Work work;
    std::promise<Scored> result;
  };
  struct Batch {
    std::shared_ptr<const Target> target;
    std::chrono::steady_clock::time_point start;  // not before
    int64_t candidates = 0;
    std::vector<Request> requests;
  };
  void run();
  static void score(Batch& batch);
  static void score_joined(Batch& batch);

  const std::chrono::microseconds window_;
  const int64_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> waiting_;                // by start
  std::map<const Target*, std::shared_ptr<Batch>> joinable_;  // of waiting_
  bool hurrying_ = false, ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace foretime::server
