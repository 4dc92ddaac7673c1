#pragma once

#include <string>

#include "inference/candidates/ranking.h"
#include "worker/evaluation/evaluator.h"

namespace foretime::worker {

/// An evaluation for those that write rankings (cli/ranking.h).
inference::Ranking ranking_of(const worker::GroupEvaluation& group);

/// submission_line of it.
std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group);

}  // namespace foretime::worker
