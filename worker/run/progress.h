#pragma once

#include <string>

#include "worker/step/events.h"

namespace foretime::worker {

/// 1:05 or 2:03:09.
std::string duration_text(double seconds);

/// Shows training progress on stderr: one bar that is redrawn on a terminal, lines elsewhere.
class ProgressDisplay final : public TrainingListener {
 public:
  /// `label` stands before every line; `metric` is the name of TrainingReport::metric.
  ProgressDisplay(std::string label, std::string metric);
  void on_step(const StepEvent& event) override;
  /// Ends the bar, so that what follows starts on a line of its own.
  void finish();

 private:
  std::string label_, metric_;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace foretime::worker
