#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/algorithms/gradient_reducer.h"
#include "comm/communicator.h"
#include "worker/profile/profiler.h"

namespace foretime::worker {

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
