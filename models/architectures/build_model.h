#pragma once

#include <string>
#include <vector>

#include "models/graph/model_graph.h"

namespace foretime::models {

/// Builds the graph of a model by its registered name (`model.type`). Throws ModelError for settings that do not fit
/// together (a readout over configurable nodes without layouts, say).
ModelGraph build_model(const configs::ModelSettings& settings, const InputSchema& schema);

/// Names that `model.type` may have.
std::vector<std::string> model_types();

}  // namespace foretime::models
