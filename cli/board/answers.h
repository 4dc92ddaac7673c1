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

/// Answers by the text of their question, each kept for a moment, so that many pages cost as much as one. Whoever asks
/// first makes the answer, and those who ask the same meanwhile wait for it; other questions never wait. Any thread may
/// call.
class Answers {
 public:
  using Text = std::shared_ptr<const std::string>;
  struct Limits {
    std::chrono::milliseconds kept{900};         // after an answer was made
    std::chrono::milliseconds patience{20'000};  // for one that somebody else makes
    size_t most_bytes = size_t{64} << 20;        // of all answers that are kept
  };

  explicit Answers(const Limits& limits) : limits_(limits) {}
  Answers() : Answers(Limits{}) {}

  /// Returns a kept answer, or what `make` returns, which nothing of this object waits for. Throws what `make` throws,
  /// to all who wait for it, and HttpError where somebody else's `make` takes longer than the patience.
  Text get(const std::string& question, const std::function<std::string()>& make);
  /// Forgets all answers, also those that are being made: who asks from now on gets newer ones.
  void clear();

 private:
  struct Kept {
    std::shared_future<Text> answer;
    uint64_t number = 0;                            // of the call that makes it
    std::chrono::steady_clock::time_point until{};  // no time: it is being made
  };
  void drop_old();

  const Limits limits_;
  std::mutex mutex_;
  std::map<std::string, Kept> kept_;
  uint64_t calls_ = 0;
  size_t bytes_ = 0;  // of the answers that are kept
};

}  // namespace foretime::cli
