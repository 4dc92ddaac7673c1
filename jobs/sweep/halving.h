#pragma once

#include <cstdint>

#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Returns the rungs of W&B's `hyperband` with min_iter, in evaluations: the whole parts of min_iter eta^k for k = 0,
/// 1, …, without repetitions, at most 64 rungs and up to 1e9. Throws SweepError unless min_iter >= 1, eta > 1.
HalvingRule halving_from_min(int64_t min_iter, double eta);
/// Returns the rungs of W&B's `hyperband` with max_iter and s (`brackets`): the whole parts of max_iter / eta^k for k =
/// brackets … 1 that are at least 1, without repetitions. Throws SweepError unless max_iter, brackets >= 1, eta > 1 and
/// a rung is left.
HalvingRule halving_from_max(int64_t max_iter, int64_t brackets, double eta);

}  // namespace foretime::jobs
