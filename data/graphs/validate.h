#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/graphs/group.h"

namespace foretime::data {

/// Checks everything that later code relies on: at least one candidate, array sizes, ascending pointers, node ids,
/// edges, node types and layout codes in range, finite features, and validate_runtimes (programs may fail). Throws
/// DataError `origin: field: found, expected`.
void validate_group(const Group& group, const std::string& origin);

/// Checks a group whose node features and layout codes went to a LayoutSink: everything in validate_group but these.
void validate_all_but_streamed(const Group& group, const std::string& origin);

/// Throws DataError unless all run times are finite and positive, or all are 0 and `may_be_unlabelled` is set. If
/// `may_fail` is set, some but not all may be infinite. `origin` is the prefix of messages.
void check_runtimes(std::span<const double> runtimes, bool may_be_unlabelled, const std::string& origin,
                    bool may_fail = false);

/// Throws DataError unless check_runtimes accepts `candidates` run times, and there are as many finite flops or none.
void validate_runtimes(std::span<const double> runtimes, std::span<const double> flops, int64_t candidates,
                       const std::string& origin, bool may_fail);

/// Returns the index of the first value that is infinite or NaN; -1 if all are finite.
int64_t first_not_finite(std::span<const float> values);

}  // namespace foretime::data
