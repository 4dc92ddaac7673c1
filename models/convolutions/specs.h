#pragma once

#include <string>
#include <vector>

#include "models/graph_model.h"

namespace foretime::models {

/// Convolutions by the names of model.type and model.convolutions, as the settings shape them.
std::vector<std::string> convolution_names();

/// How a GraphModel of these settings passes messages: model.layers convolutions of the kind model.type, or those of
/// model.convolutions (type stacked), or none (mlp). Throws ModelError for an unknown name.
Propagation make_propagation(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
