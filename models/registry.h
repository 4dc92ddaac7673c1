#pragma once

#include <memory>

#include "configs/settings.h"
#include "models/model.h"

/// Models that are not an encoder, messages, a readout and a head (models/convolutions/specs.h); `make_model` finds
/// them by model.type.
namespace foretime::models {

/// Graph convolutions and TopK pooling over syntax trees (models/tpgnn.h).
std::shared_ptr<CostModel> make_tpgnn(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
