#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/graphs/group.h"

namespace foretime::data {

/// Checks everything that code behind the readers relies on without looking: array sizes, that pointers ascend, that
/// node ids, edges, node types and layout codes are in range, that features are finite and run times usable (not
/// negative; 0 only where all are 0). Throws DataError `origin: field: found, expected`.
void validate_group(const Group& group, const std::string& origin);

/// Checks a group whose node features and layout codes went to a LayoutSink: everything but those two, which their
/// readers have checked.
void validate_all_but_streamed(const Group& group, const std::string& origin);

/// Throws DataError unless all run times are positive, or all are 0 and `may_be_unlabelled`; infinite ones, but not
/// all, are allowed where programs `may_fail`. `origin` starts messages.
void check_runtimes(std::span<const double> runtimes, bool may_be_unlabelled, const std::string& origin,
                    bool may_fail = false);

/// The part of it that run times and flops take, `candidates` of them.
void validate_runtimes(std::span<const double> runtimes, std::span<const double> flops, int64_t candidates,
                       const std::string& origin, bool may_fail);

/// Position of the first value that is infinite or no number; -1 where all are finite.
int64_t first_not_finite(std::span<const float> values);

}  // namespace foretime::data
