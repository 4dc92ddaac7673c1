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

/// Where something took place.
enum class SpanPlace : uint8_t {
  training = 0,  // on the thread that made the profiler, which is the one that all wait for
  beside = 1,    // on another thread
  wire = 2,      // on none: a transfer under way
};

/// A span of a profile. Names and details are numbers into ProfileSnapshot::texts; detail 0 is none.
struct ProfileEvent {
  int64_t begin_ns = 0, duration_ns = 0;  // since the profiler was made
  uint32_t name = 0, detail = 0;
  uint16_t lane = 0;  // 0: training; then other threads, the lowest that is free; kWireLane
  static constexpr uint16_t kWireLane = 0xffff;
};

/// All spans of one name in one place.
struct SpanTotals {
  int64_t count = 0;
  double seconds = 0;       // from begin to end
  double self_seconds = 0;  // without the spans inside
  double longest = 0;       // seconds
};

/// What a profiler knows at one moment.
struct ProfileSnapshot {
  int64_t wall_ns = 0;  // since the profiler was made
  int64_t dropped = 0;  // older events that had to go
  std::vector<std::string> texts;
  std::vector<ProfileEvent> events;                                // by end
  std::map<std::pair<SpanPlace, std::string>, SpanTotals> totals;  // of all spans, the dropped ones too
  std::chrono::steady_clock::time_point start;                     // when the profiler was made
};

/// Records what the threads of a rank do. Safe to use from any thread. Memory is bounded: the latest `limit` events are
/// kept, and at most kMaxTexts different names and details (later details are dropped, not their spans).
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxEvents = 100000;
  static constexpr size_t kMaxTexts = 4096;

  explicit Profiler(size_t limit = kMaxEvents);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// A span of the calling thread, within those that it has open. Use ProfileSpan.
  void begin(std::string_view name, std::string_view detail = {});
  void end();
  /// A span of the calling thread that was measured elsewhere, within the one that it has open.
  void add(std::string_view name, Clock::time_point begin, Clock::time_point end);
  /// A transfer.
  void add_transfer(std::string_view name, Clock::time_point begin, Clock::time_point end, std::string_view detail);

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

  uint32_t number_of(std::string_view text, bool needed);
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
  std::unordered_map<std::thread::id, Thread> threads_;  // those with open spans
  std::map<std::pair<SpanPlace, uint32_t>, SpanTotals> totals_;
  std::vector<ProfileEvent> ring_;
  int64_t recorded_ = 0;
};

/// A span from here to the end of the scope, or to `end`. Costs nothing where there is no profiler.
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
  /// Ends this span and begins another in its place.
  void next(std::string_view name) {
    if (profiler_ == nullptr) return;
    profiler_->end();
    profiler_->begin(name);
  }

 private:
  Profiler* profiler_;
};

/// One rank's profile on rank 0.
struct RankProfile {
  ProfileSnapshot snapshot;
  std::string host;
  int64_t shift_ns = 0;  // to be added to its events, so that they are on rank 0's clock
};

/// Events that one of so many ranks may keep, so that rank 0 can hold and write those of all: 500,000 together.
size_t events_per_rank(int ranks);

/// Brings all ranks' profiles to rank 0, by rank; empty elsewhere. Every rank calls it. Clocks of ranks on one machine
/// are one; those of other machines are set by the moments at which barriers let the ranks go, to about a barrier's
/// latency.
std::vector<RankProfile> gather_profiles(const Profiler& profiler, comm::Communicator& comm);

/// A trace in Chrome's format (chrome://tracing, Perfetto): complete events in microseconds, pid is the rank, tid 0 the
/// training thread, then its other threads, and from kFirstWireThread on transfers, side by side where they overlap.
/// Where old events were dropped, otherData and an instant event say how many.
/// Format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
std::string chrome_trace(const std::vector<RankProfile>& ranks);
constexpr int kFirstWireThread = 1000;

/// A finished reduction of gradients: the wait for it within the open span, and its buckets as transfers. Nothing where
/// `profiler` is null or nothing was reduced.
void record_reduction(Profiler* profiler, const comm::GradientReducer::Timing& timing);

/// Where the time went, as rows of cells, the header first: for each span its place, count, total over ranks, share of
/// the ranks' wall time, mean and longest span, and the least and the most that it took a rank. Totals of the training
/// thread leave out the spans inside, so they and "other" add up to the wall time. Transfers have no share: many are
/// under way at a time.
std::vector<std::vector<std::string>> profile_rows(const std::vector<RankProfile>& ranks);

}  // namespace foretime::worker
