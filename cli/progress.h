#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "worker/trainer.h"

namespace foretime::cli {

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
  // Of the first report: a resumed run does not begin at step 0, and the first steps are slower than the rest.
  std::chrono::steady_clock::time_point start_;
  int64_t first_step_ = -1;
};

}  // namespace foretime::cli
