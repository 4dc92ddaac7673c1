#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Graph isomorphism network (Xu et al., arXiv 1810.00826): MLP((1 + ε) x + Σ x of neighbours), ε learned, the MLP two
/// linear layers with an activation between them; producers and consumers together or apart. The first linear layer
/// comes before the sum, which it commutes with. Parameters: epsilon, mlp.0.…, mlp.1.….
Convolution gin(const configs::ModelSettings& settings, const InputSchema&) {
  const auto build = [width = settings.hidden, slope = activation_slope(settings), dropout = settings.dropout](
                         GraphBuilder& b, const Messages& m) {
    const auto epsilon = b.parameter("epsilon", {1}, {});
    const DenseStack mlp(b, "mlp", {b.width(m.states), width, width}, slope,
                         {.bias = true, .activate_last = false, .dropout = dropout});
    const Value first = b.dense_part(m.states, mlp.first().weight, 0);
    const Value own = b.emit(inference::Scale{.x = first, .factors = epsilon, .offset = 1.0});
    const Value summed =
        b.csr_sum({{m.relation(0), first}, {m.hops[0].self, own}}, mlp.first().bias, mlp.first_slope());
    return b.activated(mlp.after_first(b, summed), m.slope);
  };
  return in_each_direction(settings.gin.directions,
                           {{{plans::Direction::both, plans::EdgeNorm::sum, false}}, 1, build});
}

}  // namespace foretime::models
