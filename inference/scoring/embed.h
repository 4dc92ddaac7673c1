#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/graphs/group.h"
#include "inference/scoring/model.h"
#include "plans/plan_source.h"

namespace foretime::inference {

/// Scores candidates of a group in pieces that are dealt to the model's threads; which pieces there are depends on the
/// group and its candidates alone, and so does every bit of a score. Equal candidates are embedded once and count as
/// often as they stand there. `source`: of the group. Throws data::DataError and BundleError as PlanBuilder and
/// Executor do.
std::vector<float> score_candidates(const Model& model, const data::Group& group,
                                    const std::shared_ptr<const plans::PlanSource>& source,
                                    std::span<const int64_t> candidates);

}  // namespace foretime::inference
