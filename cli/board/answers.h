#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace foretime::cli {

/// Caches answers by the text of their question for a moment, so that many pages cost as much as one. The first caller
/// makes the answer, and callers of the same question wait for it; other questions do not wait. Thread-safe.
class Answers {
 public:
  using Text = std::shared_ptr<const std::string>;
  struct Limits {
    std::chrono::milliseconds kept{900};         // counted from the end of making the answer
    std::chrono::milliseconds patience{20'000};  // wait for an answer that another caller makes
    size_t most_bytes = size_t{64} << 20;        // sum over all cached answers
  };

  explicit Answers(const Limits& limits) : limits_(limits) {}
  Answers() : Answers(Limits{}) {}

  /// Returns a cached answer, or the result of `make`, during which no lock is held. Rethrows errors of `make` to all
  /// callers that wait for it. Throws HttpError if another caller's `make` takes longer than the patience.
  Text get(const std::string& question, const std::function<std::string()>& make);
  /// Removes all answers, including those being made, so that later callers get new ones.
  void clear();

 private:
  struct CachedAnswer {
    std::shared_future<Text> answer;
    uint64_t number = 0;                            // number of the call that makes it
    std::chrono::steady_clock::time_point until{};  // no time: the answer is being made
  };
  /// Removes expired answers, and more if the size limit is exceeded.
  void drop_old();

  const Limits limits_;
  std::mutex mutex_;
  std::map<std::string, CachedAnswer> cache_;
  uint64_t calls_ = 0;
  size_t bytes_ = 0;  // size of the cached answers
};

}  // namespace foretime::cli
