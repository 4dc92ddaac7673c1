#pragma once

#include <string>

#include "configs/settings.h"

namespace foretime::configs {

/// Settings that are each within bounds but cannot be meant together. Names both keys, their values and what to do;
/// empty where all is well.
std::string find_conflict(const Settings& settings);

/// Of these, what concerns data.prune_hops.
std::string find_pruning_conflict(const Settings& settings);

}  // namespace foretime::configs
