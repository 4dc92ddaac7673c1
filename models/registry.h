#pragma once

#include "configs/settings.h"
#include "models/graph_model.h"

/// One function for each registered type of model, in the file of its name; `make_model` finds them by model.type. A
/// type that is an encoder, messages, a readout and a head gives its Propagation; any other gives the whole model.
namespace foretime::models {

/// No messages at all: each state is a function of its own node. What a graph network has to beat.
Propagation mlp_propagation(const configs::ModelSettings& settings, const InputSchema& schema);
/// Graph convolutions with symmetric normalisation; model.residual adds each state's own.
Propagation gcn_propagation(const configs::ModelSettings& settings, const InputSchema& schema);
/// GraphSAGE, mean over producers and over consumers; model.residual and model.l2_normalize.
Propagation sage_propagation(const configs::ModelSettings& settings, const InputSchema& schema);
/// The published TpuGraphs layout baseline ("ResModel"): x += act(MLP(Â concat(layout, x))).
Propagation residual_gcn_propagation(const configs::ModelSettings& settings, const InputSchema& schema);
/// Graph convolutions and TopK pooling over syntax trees (models/tpgnn.h).
std::shared_ptr<CostModel> make_tpgnn(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
