#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/evaluation/evaluator.h"

namespace foretime::worker {

/// A model's name and its evaluation: a row of the comparison.
using NamedEvaluation = std::pair<std::string, worker::Evaluation>;

/// Columns of text, padded, with a rule under the first row.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

/// One table for each evaluation set: models by metrics, the noise ceiling in the last row.
std::string comparison_table(const std::vector<NamedEvaluation>& evaluations);

/// One row for each group: set, name, candidates, τ beside its noise ceiling, and more.
std::string group_table(const worker::Evaluation& evaluation);

}  // namespace foretime::worker
