#pragma once

#include <string>

#include "configs/settings.h"

namespace foretime::configs {

/// Settings that are each within bounds but cannot be meant together. Names both keys, their values and what to do;
/// empty where all is well.
std::string find_conflict(const Settings& settings);

/// Of these, what concerns data.prune_hops.
std::string find_pruning_conflict(const Settings& settings);

/// Whether a key is one of all models, or one in the section of a model type that these settings use: model.type, the
/// layers of a stacked model, trainer.baselines.
bool is_read(const Settings& settings, const std::string& key);

/// How many steps messages travel in a model: the layers of its message plans. A Chebyshev convolution of order K takes
/// K - 1 steps, all others one.
int64_t message_hops(const ModelSettings& settings);

}  // namespace foretime::configs
