#pragma once

#include <string>

#include "data/group.h"

namespace foretime::data {

/// Checks everything that code behind the readers relies on without looking: array sizes, that pointers ascend, that
/// node ids, edges, node types and layout codes are in range, that features are finite and run times usable (not
/// negative; 0 only where all are 0). Throws DataError `origin: field: found, expected`.
void validate_group(const Group& group, const std::string& origin);

}  // namespace foretime::data
