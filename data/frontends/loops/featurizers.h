#pragma once

#include "configs/settings.h"
#include "data/frontends/loops/hardware.h"
#include "data/graphs/featurizer.h"

namespace foretime::data {

/// The form that data.representation names: null for ast.
FeaturizerPtr make_featurizer(const configs::DataSettings& settings);

Hardware hardware_of(const configs::HardwareSettings& settings);

}  // namespace foretime::data
