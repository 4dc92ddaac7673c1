#pragma once

#include <cstdint>

#include "configs/settings.h"

namespace foretime::configs {

/// How many steps messages travel in a model: the layers of its message plans. A Chebyshev convolution of order K takes
/// K - 1 steps, all others one.
int64_t message_hops(const ModelSettings& settings);

}  // namespace foretime::configs
