#pragma once

#include <string>

#include "worker/evaluator.h"

namespace foretime::cli {

/// One line of the contest's submission file (ID,TopConfigs): the collection and group, then candidate ids, fastest
/// first, joined by semicolons. A qualified group name (data/collection.h) counts without its collection. Layout lines
/// rank all candidates, tile lines the top five, as the contest asked.
std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group);

}  // namespace foretime::cli
