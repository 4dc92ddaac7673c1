#pragma once

#include <vector>

#include "models/convolutions/convolution.h"

namespace foretime::models {

/// How a graph model passes messages.
struct Propagation {
  std::vector<Convolution> layers = {};
  std::vector<plans::RelationSpec> relations = {};  // of all convolutions, each once
  bool residual = false;                            // x + act(conv(x)) instead of act(conv(x))
  bool l2_normalize = false;                        // each state over its norm, after each layer
  bool activates_before = false;  // convolutions activate what they get: conv(x), and one activation after the last
};

/// model.layers convolutions of the kind model.type, or model.stacked.convolutions (type stacked), or none (mlp).
Propagation make_propagation(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
