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

#include "base/no_copy.h"

namespace foretime::server {

/// Holds the candidates of one request, in the list that its target scores.
struct Work {
  int64_t count = 0;                         // number of candidates
  std::vector<int8_t> layouts = {};          // [count, configurable, 18]
  std::vector<float> tiles = {};             // [count, 24]
  std::vector<std::string_view> texts = {};  // [count] records or programs; valid until the request is answered
};

/// Holds the scores of one request.
struct Scored {
  std::vector<float> scores = {};  // [count] lower is faster; +infinity: not scored
  // [count] probability that building or running fails, NaN: not scored; empty: the model does not predict it
  std::vector<float> failures = {};
  int64_t failed = 0;              // number of candidates that were not scored
  std::string first_failure = {};  // "INDEX: REASON" of the first of them; "": all were scored
  // [count] machine whose hardware the model guesses, "" for known ones; empty: no machine is guessed
  std::vector<std::string> unknown_machines = {};
  int64_t requests = 1;  // number of requests that were scored in the same call
};

/// Scores candidates of a graph, of a workload, or of a model of programs. Thread-safe.
class Target {
 public:
  virtual ~Target() = default;
  /// Scores the candidates of `work`; a text that cannot be scored gets +infinity. Throws DataError for layouts or
  /// tiles that graph or model do not allow, and WrongKind if all records are for the other kind of device.
  virtual Scored score(const Work& work) const = 0;
  /// Returns whether several requests may be scored in one call, because scores do not depend on other candidates.
  virtual bool joins_requests() const = 0;
};

/// Scores requests with a fixed number of threads. Requests for a target that joins them are scored in one call if they
/// arrive within a window or while all threads are busy, so that the common work of a graph's candidates is done once.
class Batcher : NoCopy {
 public:
  /// Starts the threads. A request waits `window` for others; calls of several have at most `most` candidates.
  Batcher(int64_t threads, std::chrono::microseconds window, int64_t most);
  /// Scores the waiting requests, and ends the threads.
  ~Batcher();

  /// Scores the work, possibly with other requests, and returns its result. Blocks until then. Throws the errors of
  /// scoring this work alone; other requests in the same call have no influence.
  Scored score(const std::shared_ptr<const Target>& target, Work work);
  /// Scores the requests that wait now at once, and later ones without waiting for others to join.
  void stop_waiting();

 private:
  struct Request {
    Work work;
    std::promise<Scored> result;
  };
  struct Batch {
    std::shared_ptr<const Target> target;
    std::chrono::steady_clock::time_point start;  // time at which scoring may start
    int64_t candidates = 0;                       // candidates of all requests
    std::vector<Request> requests;
  };
  void run();                              // takes and scores batches until the destructor; the body of a thread
  static void score(Batch& batch);         // answers the requests: jointly, or each alone if that fails
  static void score_joined(Batch& batch);  // answers all requests by one call of the target, and throws its error

  const std::chrono::microseconds window_;
  const int64_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // in order of arrival; the earliest `start` need not come first
  std::deque<std::shared_ptr<Batch>> waiting_;
  std::map<const Target*, std::shared_ptr<Batch>> joinable_;  // batches in waiting_ that may grow
  bool waits_no_more_ = false, ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace foretime::server
