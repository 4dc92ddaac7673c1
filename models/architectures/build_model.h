#pragma once

#include "models/graph/model_graph.h"

namespace foretime::models {

/// Builds the graph of a model (`model.type`). Throws ModelError for settings that do not fit
/// together (a readout over configurable nodes without layouts, say).
ModelGraph build_model(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
