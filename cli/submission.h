#pragma once

#include <string>
#include <vector>

#include "worker/evaluator.h"

namespace foretime::cli {

/// The part of a TpuGraphs path that names its collection: …/npz/layout/xla/random/test/x.npz gives layout:xla:random,
/// …/npz/tile/xla/test/x.npz gives tile:xla. Empty where the path has no such part.
std::string collection_of(const std::string& path);

/// One line of the contest's submission file (ID,TopConfigs): the collection and group, then candidate ids, fastest
/// first, joined by semicolons. Layout lines rank all candidates, tile lines the top five, as the contest asked.
std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group);

}  // namespace foretime::cli
