#include "models/convolutions/convolution.h"

namespace foretime::models {

/// The layer of TpuGraphs' tile baselines EarlyJoinResGCN and LateJoinResGCN: MLP((N + Nᵀ + I) act(x)), to be added to
/// x, where the MLP is two linear layers with an activation between them. N = D^-1 (A + I), in which a producer
/// receives from its consumers: published code takes the first column of edge_index, the consumer, for an edge's
/// source. The first linear layer comes before the sums, which it commutes with. Parameters: mlp.0.…, mlp.1.….
Convolution preactivated_gcn(const configs::ModelSettings& settings, const InputSchema&) {
  const auto build = [slope = activation_slope(settings), dropout = settings.dropout](GraphBuilder& b,
                                                                                      const Messages& m) {
    const int64_t width = b.width(m.states);
    const DenseStack mlp(b, "mlp", {width, width, width}, slope,
                         {.bias = true, .activate_last = false, .dropout = dropout});
    const Value first = b.dense_part(b.activated(m.states, slope), mlp.first().weight, 0);
    const Value messages = b.csr_sum({{m.relation(0), first}, {m.relation(1), first}}, mlp.first().bias);
    const Value summed = b.activated(b.add({messages, m.own(b, first)}), mlp.first_slope());
    return b.activated(mlp.after_first(b, summed), m.slope);
  };
  return {{{plans::Direction::out, plans::EdgeNorm::mean, /*self_loop=*/true},
           {plans::Direction::in, plans::EdgeNorm::sender, /*self_loop=*/true}},
          1,
          build};
}

}  // namespace foretime::models
