#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/algorithms/gradient_reducer.h"
#include "comm/communicator.h"

namespace foretime::worker {

/// Names the kinds of places where a span is recorded.
enum class SpanPlace : uint8_t {
  training = 0,  // the thread that made the profiler
  beside = 1,    // another thread
  wire = 2,      // no thread: a transfer in progress
};

/// Describes a span of a profile. Names and details are indices of ProfileSnapshot::texts; detail 0 means none.
struct ProfileEvent {
  int64_t begin_ns = 0, duration_ns = 0;  // begin counts from the creation of the profiler
  uint32_t name = 0, detail = 0;
  // 0: training thread; 1, 2, …: other threads, each the lowest number that is free; kWireLane: transfers
  uint16_t lane = 0;
  static constexpr uint16_t kWireLane = 0xffff;
};

/// Sums up all spans of one name in one place.
struct SpanTotals {
  int64_t count = 0;
  double seconds = 0;       // sum of durations
  double self_seconds = 0;  // sum of durations without inner spans
  double longest = 0;       // duration of the longest span, seconds
};

/// Holds the state of a profiler at one moment.
struct ProfileSnapshot {
  int64_t wall_ns = 0;  // time since the profiler was made
  int64_t dropped = 0;  // number of events that were discarded, oldest first
  std::vector<std::string> texts;
  std::vector<ProfileEvent> events;                                // ordered by end
  std::map<std::pair<SpanPlace, std::string>, SpanTotals> totals;  // sums over all spans, discarded events included
  std::chrono::steady_clock::time_point start;                     // creation of the profiler
};

/// Records the activity of a rank's threads. Any thread may use it. Memory is bounded: the latest `limit` events are
/// kept, and at most kMaxTexts different names and details (spans with later details are recorded without them).
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxEvents = 100000;
  static constexpr size_t kMaxTexts = 4096;

  explicit Profiler(size_t limit = kMaxEvents);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Begins a span of the calling thread, inside its open spans. Use ProfileSpan.
  void begin(std::string_view name, std::string_view detail = {});
  /// Ends the innermost open span of the calling thread; without one, does nothing.
  void end();
  /// Adds a span of the calling thread that was measured elsewhere, inside its open span.
  void add(std::string_view name, Clock::time_point begin, Clock::time_point end);
  /// Adds a transfer, which belongs to no thread.
  void add_transfer(std::string_view name, Clock::time_point begin, Clock::time_point end, std::string_view detail);

  /// Returns a copy of the current state.
  ProfileSnapshot snapshot() const;

 private:
  struct Open {
    uint32_t name, detail;
    Clock::time_point begin;
    Clock::duration inner;
  };
  struct Thread {
    uint16_t lane;
    std::vector<Open> open;
  };

  /// Returns the index of a text, added if necessary; 0 for "", and for a text that is not `needed` once the list is
  /// full.
  uint32_t number_of(std::string_view text, bool needed);
  /// Returns the lowest number that no thread with open spans uses.
  uint16_t free_lane() const;
  Thread& thread();
  void record(SpanPlace place, uint16_t lane, uint32_t name, uint32_t detail, Clock::time_point begin,
              Clock::time_point end, Clock::duration inner);

  const size_t limit_;
  const Clock::time_point start_;
  const std::thread::id training_thread_;
  mutable std::mutex mutex_;
  std::map<std::string, uint32_t, std::less<>> numbers_;
  std::vector<std::string> texts_;
  std::unordered_map<std::thread::id, Thread> threads_;  // threads that have open spans
  std::map<std::pair<SpanPlace, uint32_t>, SpanTotals> totals_;
  std::vector<ProfileEvent> ring_;
  int64_t recorded_ = 0;
};

/// Records a span from its construction to the end of the scope or the call of `end`. Does nothing if `profiler` is
/// null.
class ProfileSpan {
 public:
  ProfileSpan(Profiler* profiler, std::string_view name, std::string_view detail = {}) : profiler_(profiler) {
    if (profiler_ != nullptr) profiler_->begin(name, detail);
  }
  ~ProfileSpan() { end(); }
  ProfileSpan(const ProfileSpan&) = delete;
  ProfileSpan& operator=(const ProfileSpan&) = delete;
  void end() {
    if (profiler_ != nullptr) std::exchange(profiler_, nullptr)->end();
  }
  /// Ends this span and begins another one.
  void next(std::string_view name) {
    if (profiler_ == nullptr) return;
    profiler_->end();
    profiler_->begin(name);
  }

 private:
  Profiler* profiler_;
};

/// Holds one rank's profile on rank 0.
struct RankProfile {
  ProfileSnapshot snapshot;
  std::string host;
  int64_t shift_ns = 0;  // offset to add to event times, to convert them to rank 0's clock
};

/// Returns the number of events that each of `ranks` ranks may keep, so that rank 0 can hold and write all of them:
/// 500,000 in total.
size_t events_per_rank(int ranks);

/// Returns the profiles of all ranks, by rank, on rank 0; an empty list on other ranks. Every rank calls it. Clocks of
/// other machines are aligned by the times at which ranks leave barriers, to about the latency of a barrier.
std::vector<RankProfile> gather_profiles(const Profiler& profiler, comm::Communicator& comm);

/// Returns a trace in Chrome's format (chrome://tracing, Perfetto): complete events in microseconds. The pid is the
/// rank; tid 0 is the training thread, followed by other threads, and transfers start at kFirstWireThread, on several
/// rows if they overlap. otherData and an instant event give the number of discarded events.
/// Format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
std::string chrome_trace(const std::vector<RankProfile>& ranks);
constexpr int kFirstWireThread = 1000;

/// Records a finished reduction of gradients: the wait for it as a span inside the open span, and its buckets as
/// transfers. Does nothing if `profiler` is null or nothing was reduced.
void record_reduction(Profiler* profiler, const comm::GradientReducer::Timing& timing);

/// Returns a table of the time spent, the header first. For each span: place, count, total over ranks, share of the
/// ranks' wall time, mean and longest span, and the least and greatest total of a rank. Totals of the training thread
/// exclude inner spans, so that they and "other" add up to the wall time. Transfers have no share, since they overlap.
std::vector<std::vector<std::string>> profile_rows(const std::vector<RankProfile>& ranks);

}  // namespace foretime::worker
