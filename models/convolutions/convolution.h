#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/graph/model_graph.h"
#include "models/layers/dense.h"

namespace foretime::models {

/// One layer of a plan that a convolution spans, with the convolution's own relations only.
struct Hop {
  std::vector<MatrixRef> relations;  // [states above, states below], in the order of Convolution::relations
  MatrixRef self;                    // gathers each target's own state one level down
};

/// What a convolution works on.
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

/// The width of a head. Throws ModelError, naming model.heads and model.hidden, where the heads do not divide `width`.
int64_t head_width(int64_t width, int64_t heads);

/// A convolution twice, with weights of its own for messages from producers (producers.…) and from consumers
/// (consumers.…), whose results are summed, where model.directions says apart. `convolution` must have one relation, in
/// both directions. Throws ModelError for another word than apart and together.
Convolution in_each_direction(const configs::ModelSettings& settings, const Convolution& convolution);
bool directions_apart(const configs::ModelSettings& settings);

using MakeConvolution = Convolution(const configs::ModelSettings& settings, const InputSchema& schema);
/// One file each; registry.cpp has their names.
MakeConvolution chebnet, gat, gcn, gin, preactivated_gcn, residual_gcn, sage, transformer;

}  // namespace foretime::models
