#pragma once

#include <string>
#include <utility>
#include <vector>

#include "inference/candidates/ranking.h"
#include "worker/evaluation/evaluator.h"
#include "worker/step/events.h"

namespace foretime::worker {

/// A model's name and its evaluation: a row of the comparison.
using NamedEvaluation = std::pair<std::string, worker::Evaluation>;

/// One table for each evaluation set: models by metrics, the noise ceiling in the last row. `width`: of the terminal;
/// 0: as wide as it comes.
std::string comparison_table(const std::vector<NamedEvaluation>& evaluations, size_t width = 0);

/// One row for each group: set, name, candidates, τ next to its noise ceiling, and more.
std::string group_table(const worker::Evaluation& evaluation, size_t width = 0);

/// An evaluation for those that write rankings (inference/candidates/ranking.h).
inference::Ranking ranking_of(const worker::GroupEvaluation& group);

/// submission_line of it.
std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group);

/// What a line of progress says, in at most `width` characters: the bar and what is least missed go first.
std::string progress_line(const std::string& label, const std::string& metric, const StepEvent& now, size_t width);

/// Shows training progress on stderr, at the first step and at each report: one line that is redrawn on a terminal, and
/// fits it; lines elsewhere.
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
  bool drawn_ = false, shown_ = false;
};

}  // namespace foretime::worker
