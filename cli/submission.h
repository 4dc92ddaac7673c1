#pragma once

#include <string>

#include "cli/ranking.h"
#include "worker/evaluator.h"

namespace foretime::cli {

/// An evaluation for those that write rankings (cli/ranking.h).
Ranking ranking_of(const worker::GroupEvaluation& group);

/// submission_line of it.
std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group);

}  // namespace foretime::cli
