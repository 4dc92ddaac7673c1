#pragma once

#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// A layer without some of its messages (Rong et al., "DropEdge", arXiv 1907.10903): each entry of each relation is
/// left out with `probability`, and the values of those that stay are divided by 1 - probability, so that sums keep
/// their expectation. Entries from a state's own state one level down (self loops, diagonals) stay as they are.
/// Messages that a plan has merged go or stay together. Drawn from torch's generator. Of a plan made with gradients.
LayerTensors drop_messages(const LayerTensors& layer, double probability);

}  // namespace foretime::models
