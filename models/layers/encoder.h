#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "models/graph/model_graph.h"
#include "models/layers/dense.h"

namespace foretime::models {

/// What the first level of states is made of, and what later layers read again.
struct EncodedInputs {
  Value states;         // [states of level 0, columns]
  Value layout_rows;    // [distinct rows, columns] layouts as the settings make them; undefined: none
  Value tile_features;  // [candidates, 24] transformed; undefined: none
};

/// From a plan's inputs to the states of its first level: a dense stack over the joined columns
///   [layout columns (layout data) | node features (model.features.columns) | node-type vector | collection vector |
///    tile features (24, early join)].
/// Layout columns are the 18 numbers of a layout times model.features.layout_scale, or times learned factors
/// (layout_scale), or for each of the 18 a learned vector of its value (layout_codes.weight; values below -1 count as
/// -1, above 6 as 6); zeros where a node is not configurable.
/// With model.layout_gate the states also get tanh(G n + g) * (E l), elementwise, of a node's columns n without its
/// layout's, and its layout columns l: what a layout does is a property of the node that has it.
/// The vectors of node types are parameters (node_types.weight), or were made beforehand and are a buffer
/// (type_vectors: model.node_types). The first layer is linear in each of these, so its output is a sum of products
/// with slices of one weight, each taken once for every distinct row and gathered by state: equal to a plain linear
/// layer on the joined input, without ever making that input. With model.encoder_layers 0 the joined columns are the
/// states. `activate_last`: of the last dense layer. Parameters are named encoder.….
EncodedInputs encode_inputs(GraphBuilder& builder, const configs::ModelSettings& settings, const InputSchema& schema,
                            std::vector<FitSpec>& fits, bool activate_last = true);

}  // namespace foretime::models
