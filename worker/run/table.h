#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/evaluation/evaluator.h"

namespace foretime::worker {

/// A model's name and its evaluation: a row of the comparison.
using NamedEvaluation = std::pair<std::string, worker::Evaluation>;

/// One table for each evaluation set: models by metrics, the noise ceiling in the last row.
std::string comparison_table(const std::vector<NamedEvaluation>& evaluations);

/// One row for each group: set, name, candidates, τ beside its noise ceiling, and more.
std::string group_table(const worker::Evaluation& evaluation);

}  // namespace foretime::worker
