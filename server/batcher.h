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

/// Holds the candidates of one request, in the form of its target.
struct Work {
  int64_t count = 0;
  std::vector<int8_t> layouts = {};          // [count, configurable, 18]
  std::vector<float> tiles = {};             // [count, 24]
  std::vector<std::string_view> texts = {};  // [count]; valid until the request is answered
};

/// Holds the scores of one request.
struct Scored {
  std::vector<float> scores = {};  // [count]; +infinity where `failed`
  std::vector<float> failures =
      {};  // [count] probabilities that building or running fails, or empty; NaN where `failed`
  int64_t failed = 0;
  std::string first_failure = {};  // "3: why"
  std::vector<std::string> unknown_machines =
      {};  // [count] machine whose hardware the model guesses, "" for known ones; empty: no unknown machines
  int64_t requests = 1;  // number of requests scored in one call
};

/// Scores candidates of a graph, of a workload, or of a model of programs. Thread-safe.
class Target {
 public:
  virtual ~Target() = default;
  virtual Scored score(const Work& work) const = 0;
  /// Returns whether candidates of several requests may be scored in one call, because scores do not depend on each
  /// other.
  virtual bool joins_requests() const = 0;
};

/// Scores requests with a fixed number of threads. Requests for one target that arrive within a window, or while all
/// threads are busy, are scored in one call, so that the common work of a graph's candidates is done once.
class Batcher {
 public:
  /// Starts the threads. `window` is the time that a request waits for others, `most` the largest number of candidates
  /// in one call.
  Batcher(int64_t threads, std::chrono::microseconds window, int64_t most);
  /// Scores the waiting requests first.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// Scores the work and returns the result. Throws the errors of scoring this work alone; other requests in its call
  /// do not matter.
  Scored score(const std::shared_ptr<const Target>& target, Work work);
  /// Stops waiting for further requests before a call.
  void stop_waiting();

 private:
  struct Request {
    Work work;
    std::promise<Scored> result;
  };
  struct Batch {
    std::shared_ptr<const Target> target;
    std::chrono::steady_clock::time_point start;  // earliest start
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
  // In order of arrival; the earliest `start` need not come first.
  std::deque<std::shared_ptr<Batch>> waiting_;
  std::map<const Target*, std::shared_ptr<Batch>> joinable_;  // batches in waiting_ that may grow
  bool waits_no_more_ = false, ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace foretime::server
