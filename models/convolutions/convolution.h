#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "configs/settings.h"
#include "models/graph/graph_builder.h"
#include "models/layers/layers.h"

namespace foretime::models {

/// One layer of a plan that a convolution spans, with the convolution's own relations only.
struct Hop {
  std::vector<MatrixRef> relations;  // [states above, states below], in the order of Convolution::relations
  MatrixRef self;                    // gathers each target's own state one level down
};

/// The inputs of a convolution.
struct Messages {
  Value states = {};           // [states below, columns]
  std::vector<Hop> hops = {};  // lowest first
  Value layout_rows = {};      // layouts as the encoder makes them, [distinct rows, columns]; undefined: none
  MatrixRef layout_row = {};   // gathers the row of each state below
  double slope = 1.0;          // negative results are multiplied by it: 1 is no activation

  /// Values of the level below, taken to the level above by each target's own state.
  Value own(GraphBuilder& builder, Value value) const;
  const MatrixRef& relation(size_t i) const { return hops.front().relations.at(i); }
};

/// Message passing from the states of a level to those of a level above: what it asks of a plan, and a function that
/// declares its parameters and adds its operations, which gives [states above, model.hidden]. It sees nothing but the
/// plan's matrices, so it holds for every way of making states from nodes. The residual sum belongs to the model.
struct Convolution {
  std::vector<plans::RelationSpec> relations;
  int64_t hops = 1;  // layers of the plan that it spans
  std::function<Value(GraphBuilder& builder, const Messages& messages)> build;
};

/// The width of a head. Throws ModelError, naming heads and model.hidden, where the heads do not divide `width`.
int64_t head_width(int64_t width, int64_t heads);

/// Returns `convolution` itself for Directions::together. For Directions::apart, returns two such convolutions with
/// separate weights, for messages from producers (producers.…) and from consumers (consumers.…), whose results are
/// summed. `convolution` must have one relation, in both directions.
Convolution in_each_direction(configs::Directions directions, const Convolution& convolution);

using MakeConvolution = Convolution(const configs::ModelSettings& settings, const InputSchema& schema);
/// One file each.
MakeConvolution FORETIME_CONVOLUTIONS, preactivated_gcn, residual_gcn;

/// The message passing of a graph model.
struct Propagation {
  std::vector<Convolution> layers = {};
  std::vector<plans::RelationSpec> relations = {};  // relations of all convolutions, each once
  bool residual = false;                            // x + act(conv(x)) instead of act(conv(x))
  bool l2_normalize = false;                        // each state over its norm, after each layer
  bool activates_before = false;  // convolutions activate what they get: conv(x), and one activation after the last
};

/// model.layers convolutions of the kind model.type, or model.stacked.convolutions (type stacked), or none (mlp).
Propagation make_propagation(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
