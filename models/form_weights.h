#pragma once

#include "inference/graph/executor.h"
#include "models/form_writer.h"

namespace foretime::models {

/// All parameters and buffers of the model, whether its form names them or not (training can go on from them), and the
/// form's constants, as float32.
inference::Weights form_weights(const CostModel& model, const DescribedModel& described);

}  // namespace foretime::models
