#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "worker/trainer.h"

namespace foretime::cli {

/// Shows training progress on stderr: one bar that is redrawn on a terminal, lines elsewhere.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(std::string label);
  void show(const worker::Progress& progress);
  /// Ends the bar, so that what follows starts on a line of its own.
  void finish();

 private:
  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  int64_t first_step_ = -1;
};

}  // namespace foretime::cli
