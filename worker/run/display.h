#pragma once

#include <string>
#include <utility>
#include <vector>

#include "inference/scoring/ranking.h"
#include "worker/evaluation/evaluator.h"
#include "worker/step/events.h"

namespace foretime::worker {

/// Holds a model's name and the model's evaluation: a row of the comparison.
using NamedEvaluation = std::pair<std::string, worker::Evaluation>;

/// Returns one table for each set that the first evaluation has: a row for each model, a column for each metric, and a
/// last row with the noise ceiling if it is known. `width` is the width of the terminal in columns; 0 means unlimited.
std::string comparison_table(const std::vector<NamedEvaluation>& evaluations, size_t width = 0);

/// Returns a table with one row for each group: name, set, number of candidates, Kendall's τ, noise ceiling, top-1
/// slowdown and mean error relative to the mean run time; "-" for undefined values. For `width` see comparison_table.
std::string group_table(const worker::Evaluation& evaluation, size_t width = 0);

/// Converts the evaluation of a group for the functions that write rankings (inference/scoring/ranking.h).
inference::Ranking ranking_of(const worker::GroupEvaluation& group);

/// Returns the line of a submission to the TpuGraphs contest for a group of `collection`, such as layout:xla:default.
std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group);

/// Returns a progress line in at most `width` columns of a terminal. If it is too long, the bar and the least important
/// values are omitted, and then the rest is cut off. `metric` is the name of TrainingReport::metric.
std::string progress_line(const std::string& label, const std::string& metric, const StepEvent& now, size_t width);

/// Shows training progress on stderr, at the first step and at each report. On a terminal it redraws one line in the
/// terminal's width; otherwise it writes a new line each time.
class ProgressDisplay final : public TrainingListener {
 public:
  /// `label` precedes every line; `metric` is the name of TrainingReport::metric.
  ProgressDisplay(std::string label, std::string metric);
  void on_step(const StepEvent& event) override;
  /// Ends the redrawn line, so that the next output starts on a new line.
  void finish();

 private:
  std::string label_, metric_;
  bool terminal_;
  bool drawn_ = false, shown_ = false;
};

}  // namespace foretime::worker
