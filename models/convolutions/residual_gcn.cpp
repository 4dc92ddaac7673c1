#include "models/convolutions/convolution.h"

namespace foretime::models {

/// The layer of the published TpuGraphs layout baseline ("ResModel"): MLP(Â concat(layout, x)), where the MLP is two
/// linear layers with an activation between them, and Â as in gcn.cpp. Without layouts the input is x alone.
/// Parameters: mlp.0.…, mlp.1.….
Convolution residual_gcn(const configs::ModelSettings& settings, const InputSchema& schema) {
  const auto build = [width = settings.hidden, slope = activation_slope(settings), dropout = settings.dropout](
                         GraphBuilder& b, const Messages& m) {
    const int64_t layouts = m.layout_rows.defined() ? b.width(m.layout_rows) : 0;
    const DenseStack mlp(b, "mlp", {layouts + b.width(m.states), width, width}, slope,
                         {.bias = true, .activate_last = false, .dropout = dropout});
    Value joined = b.dense_part(m.states, mlp.first().weight, layouts);
    if (layouts > 0) {
      const Value by_row = b.dense_part(m.layout_rows, mlp.first().weight, 0);
      joined = b.csr_sum({{MatrixRef{}, joined}, {m.layout_row, by_row}});
    }
    const Value summed = b.csr_sum({{m.relation(0), joined}}, mlp.first().bias, mlp.first_slope());
    return b.activated(mlp.after_first(b, summed), m.slope);
  };
  return {gcn(settings, schema).relations, 1, build};
}

}  // namespace foretime::models
