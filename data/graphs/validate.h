#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/graphs/group.h"

namespace foretime::data {

/// Checks everything that later code relies on: array sizes, ascending pointers, node ids, edges, node types and layout
/// codes in range, finite features and usable run times (not negative; 0 only if all are 0). Throws DataError `origin:
/// field: found, expected`.
void validate_group(const Group& group, const std::string& origin);

/// Checks a group whose node features and layout codes went to a LayoutSink, except for these two, which their readers
/// have checked.
void validate_all_but_streamed(const Group& group, const std::string& origin);

/// Throws DataError unless all run times are positive, or all are 0 and `may_be_unlabelled`; if programs `may_fail`,
/// some but not all may be infinite. `origin` is the prefix of messages.
void check_runtimes(std::span<const double> runtimes, bool may_be_unlabelled, const std::string& origin,
                    bool may_fail = false);

/// Checks run times and flops of a group with `candidates` candidates. Throws DataError.
void validate_runtimes(std::span<const double> runtimes, std::span<const double> flops, int64_t candidates,
                       const std::string& origin, bool may_fail);

/// Returns the index of the first value that is infinite or NaN; -1 if all are finite.
int64_t first_not_finite(std::span<const float> values);

}  // namespace foretime::data
