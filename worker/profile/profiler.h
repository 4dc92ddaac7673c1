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

#include "base/no_copy.h"
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
  int64_t begin_ns = 0, duration_ns = 0;  // begin: nanoseconds since the creation of the profiler
  uint32_t name = 0, detail = 0;
  // row of a trace: 0: training thread; 1, 2, …: other threads with open spans; kWireLane: transfers
  uint16_t lane = 0;
  static constexpr uint16_t kWireLane = 0xffff;
};

/// Holds sums over all spans of one name in one place.
struct SpanTotals {
  int64_t count = 0;        // number of spans
  double seconds = 0;       // sum of the durations
  double self_seconds = 0;  // sum of the durations without the time of inner spans
  double longest = 0;       // duration of the longest span in seconds, inner spans included
};

/// Holds the state of a profiler at one moment.
struct ProfileSnapshot {
  int64_t wall_ns = 0;                                             // time since the profiler was made
  int64_t dropped = 0;                                             // number of the oldest events, which were discarded
  std::vector<std::string> texts;                                  // names and details of events; texts[0] is ""
  std::vector<ProfileEvent> events;                                // sorted by the ends of the spans
  std::map<std::pair<SpanPlace, std::string>, SpanTotals> totals;  // sums over all spans, discarded events included
  std::chrono::steady_clock::time_point start;                     // creation of the profiler
};

/// Records the activity of a rank's threads. Any thread may use it. Memory is bounded: the latest `limit` events are
/// kept. Once there are kMaxTexts different names and details, spans with a new detail are recorded without it.
class Profiler : NoCopy {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxEvents = 100000;
  static constexpr size_t kMaxTexts = 4096;

  explicit Profiler(size_t limit = kMaxEvents);

  /// Begins a span of the calling thread, inside the thread's open spans. ProfileSpan calls it and end().
  void begin(std::string_view name, std::string_view detail = {});
  /// Ends the innermost open span of the calling thread; without one, does nothing.
  void end();
  /// Adds a span of known times to the calling thread, inside the innermost open span of the thread.
  void add(std::string_view name, Clock::time_point begin, Clock::time_point end);
  /// Adds a span of known times for a transfer, which belongs to no thread (SpanPlace::wire).
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

  /// Returns the index of a text, added if new; 0 for "", and for a new text that is not `needed` after kMaxTexts.
  uint32_t number_of(std::string_view text, bool needed);
  /// Returns the lowest lane from 1 that no thread with open spans has.
  uint16_t free_lane() const;
  /// Returns the open spans of the calling thread, made if necessary.
  Thread& thread();
  /// Adds an ended span to the totals and events; `inner` is the time of its inner spans.
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

/// Records a span from the construction to the call of end() or the destruction. Does nothing if `profiler` is null.
class ProfileSpan : NoCopy {
 public:
  ProfileSpan(Profiler* profiler, std::string_view name, std::string_view detail = {}) : profiler_(profiler) {
    if (profiler_ != nullptr) profiler_->begin(name, detail);
  }
  ~ProfileSpan() { end(); }
  void end() {
    if (profiler_ != nullptr) std::exchange(profiler_, nullptr)->end();
  }
  /// Ends this span and begins one with another name. Does nothing after end().
  void next(std::string_view name) {
    if (profiler_ == nullptr) return;
    profiler_->end();
    profiler_->begin(name);
  }

 private:
  Profiler* profiler_;
};

/// Holds the profile of one rank, on rank 0.
struct RankProfile {
  ProfileSnapshot snapshot;
  std::string host;      // boot id of the rank's machine; "": unknown
  int64_t shift_ns = 0;  // offset of ProfileEvent::begin_ns to rank 0's profiler
};

/// Returns the number of events that each of `ranks` ranks may keep: 500,000 / ranks, from 1 to Profiler::kMaxEvents.
size_t events_per_rank(int ranks);

/// Returns the profiles of all ranks, by rank, on rank 0; an empty list on other ranks. Every rank calls it. Clocks of
/// other machines are aligned to rank 0's by the times at which ranks leave barriers, to about a barrier's latency.
std::vector<RankProfile> gather_profiles(const Profiler& profiler, comm::Communicator& comm);

/// Returns a trace in Chrome's format (chrome://tracing, Perfetto): complete events in microseconds. The pid is the
/// rank. The tid is 0 for the training thread and 1, 2, … for other threads; transfers have kFirstWireThread and, if
/// they overlap, the tids after it. otherData and an instant event give the number of discarded events. Format: "Trace
/// Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
std::string chrome_trace(const std::vector<RankProfile>& ranks);
constexpr int kFirstWireThread = 1000;

/// Records a finished reduction of gradients: the wait of the calling thread for it as a span, and each bucket of
/// gradients as a transfer. Does nothing if `profiler` is null or nothing was reduced.
void record_reduction(Profiler* profiler, const comm::GradientReducer::Timing& timing);

/// Returns a table of the time spent, the header first. Each name of spans in each place has a row: name, place, count,
/// total over ranks, share of the sum of the ranks' wall times, mean and longest span, and the least and greatest total
/// of a rank. Totals exclude inner spans, so that those of the training thread and its row "other" add up to the wall
/// time; mean and longest span include them. Transfers have no share, since they overlap.
std::vector<std::vector<std::string>> profile_rows(const std::vector<RankProfile>& ranks);

}  // namespace foretime::worker
