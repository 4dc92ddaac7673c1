#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "worker/step/trainer.h"

namespace foretime::worker {

/// Estimates how long a run still takes from the steps of this process alone: a resumed run does not begin at step 0,
/// and the first step, which is slower than the rest, does not count.
class TimeLeft {
 public:
  /// Seconds, or -1 while nothing is known. Called with rising steps.
  double after(int64_t step, int64_t total_steps);

 private:
  std::chrono::steady_clock::time_point start_;
  int64_t first_step_ = -1;
};

/// 1:05 or 2:03:09.
std::string duration_text(double seconds);

/// Shows training progress on stderr: one bar that is redrawn on a terminal, lines elsewhere.
class ProgressDisplay {
 public:
  /// `label` stands before every line; `metric` is the name of Progress::metric.
  ProgressDisplay(std::string label, std::string metric);
  void show(const worker::Progress& progress);
  /// Ends the bar, so that what follows starts on a line of its own.
  void finish();

 private:
  std::string label_, metric_;
  bool terminal_;
  bool drawn_ = false;
  TimeLeft time_left_;
};

}  // namespace foretime::worker
