#pragma once

#include "models/graph/graph_builder.h"

namespace foretime::models {

/// Builds a model of encoder, message passing, readout and dense head. Most model types are this function with
/// different convolutions. Parameters, in this order: encoder.…, layers.0, norms.0, layers.1, …,
/// candidates.log_temperature, head.N; below members.N with model.ensemble_size above 1. Throws as build_model.
ModelGraph graph_model(const configs::ModelSettings& settings, const InputSchema& schema);

/// Builds TPGNN: a graph network over syntax trees with hierarchical pooling, for programs only.
///   inputs → [GCN convolution, activation, TopK pooling] * model.layers → sum of the readouts after each pooling →
///   head
/// The publication fixes three convolutions from 20 to 128 columns, pooling of ratio 0.8, and a head of 256-128-64-1,
/// but not the input of the head. It is taken from PyTorch Geometric's example of TopK pooling, which has these sizes:
/// the mean and the maximum over the nodes that each pooling keeps, summed over the poolings. The convolution's
/// adjacency has both directions and a self loop; its degrees are those of the pooled graph.
///
/// Settings: hidden, layers, pool_ratio, readout (each part over the kept nodes), encoder_layers (0: the first
/// convolution reads the inputs unchanged), head_layers (each half as wide as the one before), head_bias, activation,
/// dropout (in the head only).
/// Parameters: encoder.…, layers.N.linear, pools.N.weight, head.N; below members.N with model.ensemble_size above 1.
/// Throws ModelError for data other than programs, for model.norm, and for settings out of range.
ModelGraph tpgnn(const configs::ModelSettings& settings, const InputSchema& schema);

/// Builds the additive statement model: the run time of a program is the sum of its statements' costs
/// (statement_cost.cpp). Throws ModelError for data other than loop graphs (data.representation loops), and for
/// model.statement_cost.inputs that are empty or overlap.
ModelGraph statement_cost(const configs::ModelSettings& settings, const InputSchema& schema);

/// Returns a model's number of output columns: the score and, with model.failure_output, the logit of a failure.
inline int64_t output_columns(const configs::ModelSettings& settings) { return settings.failure_output ? 2 : 1; }
/// Throws ModelError if model.failure_output is true and candidates are not programs.
void check_failure_output(const configs::ModelSettings& settings, const InputSchema& schema);

/// Builds the graph of the model that `settings` (model.type) name. Throws ModelError for settings that contradict each
/// other or the data, such as a readout over configurable nodes without layouts.
ModelGraph build_model(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
