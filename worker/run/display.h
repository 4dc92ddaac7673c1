#pragma once

#include <string>
#include <utility>
#include <vector>

#include "inference/scoring/ranking.h"
#include "worker/evaluation/evaluator.h"
#include "worker/step/events.h"

namespace foretime::worker {

/// Holds a model's name and its evaluation: a row of the comparison.
using NamedEvaluation = std::pair<std::string, worker::Evaluation>;

/// Returns one table for each evaluation set: models by metrics, the noise ceiling in the last row. `width` is the
/// width of the terminal; 0 means unlimited.
std::string comparison_table(const std::vector<NamedEvaluation>& evaluations, size_t width = 0);

/// Returns a table with one row for each group: set, name, candidates, τ, its noise ceiling, and more.
std::string group_table(const worker::Evaluation& evaluation, size_t width = 0);

/// Converts an evaluation for the functions that write rankings (inference/scoring/ranking.h).
inference::Ranking ranking_of(const worker::GroupEvaluation& group);

/// Returns the line of a contest submission for a group's ranking.
std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group);

/// Returns the text of a progress line in at most `width` characters. If it is too long, the bar and the least
/// important values are left out.
std::string progress_line(const std::string& label, const std::string& metric, const StepEvent& now, size_t width);

/// Shows training progress on stderr, at the first step and at each report. On a terminal it redraws one line that fits
/// the terminal's width; otherwise it writes new lines.
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
