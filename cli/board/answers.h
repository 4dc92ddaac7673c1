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

/// Caches answers by their question for a moment, so that many pages cost as much as one. The first caller makes the
/// answer. Callers of the same question wait for it; callers of other questions do not. Thread-safe.
class Answers {
 public:
  using Text = std::shared_ptr<const std::string>;
  struct Limits {
    std::chrono::milliseconds kept{900};         // time for which a finished answer is returned again
    std::chrono::milliseconds patience{20'000};  // longest wait for an answer that another caller makes
    size_t most_bytes = size_t{64} << 20;  // size of all cached answers together; an answer beyond it is not cached
  };

  explicit Answers(const Limits& limits) : limits_(limits) {}
  Answers() : Answers(Limits{}) {}

  /// Returns the cached answer to `question`, or else the result of `make`, during which no lock is held. All callers
  /// that wait for `make` get its errors. Throws HttpError 503 if another caller's `make` outlasts the patience.
  Text get(const std::string& question, const std::function<std::string()>& make);
  /// Forgets all answers, also those that are being made, so that later callers get new ones.
  void clear();

 private:
  struct CachedAnswer {
    std::shared_future<Text> answer;
    uint64_t number = 0;                            // number of the call of get that makes the answer
    std::chrono::steady_clock::time_point until{};  // end of its validity; zero: the answer is being made
  };
  /// Removes the answers whose time is over.
  void drop_old();

  const Limits limits_;
  std::mutex mutex_;
  std::map<std::string, CachedAnswer> cache_;
  uint64_t calls_ = 0;
  size_t bytes_ = 0;  // size of the cached answers
};

}  // namespace foretime::cli
