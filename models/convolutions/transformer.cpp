#include <cmath>

#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Graph transformer over neighbours (Shi et al., arXiv 2009.03509, without its gate): for each head
///   α_ij = softmax over the neighbours j of i of q_i · k_j / √(width of a head)
///   result_i = W x_i + b + Σ_j α_ij v_j, the heads side by side; a node without neighbours gets no sum.
/// It attends to neighbours and not to all nodes: attention over a whole candidate would make each state depend on all
/// layouts, and no two candidates could share any.
/// Parameters: own.weight, own.bias, query.…, key.…, value.… (the last three without bias).
Convolution transformer(const configs::ModelSettings& settings, const InputSchema&) {
  const int64_t width = settings.hidden, heads = settings.transformer.heads;
  const double scale = 1.0 / std::sqrt(head_width(width, heads));
  const auto build = [width, heads, scale](GraphBuilder& b, const Messages& m) {
    const int64_t input = b.width(m.states);
    const auto own = b.linear("own", input, width, true);
    const auto query = b.linear("query", input, width, false), key = b.linear("key", input, width, false),
               value = b.linear("value", input, width, false);
    const Value self = m.own(b, m.states);
    const Value attended = b.emit(inference::DotAttention{.matrix = m.relation(0),
                                                          .query = b.dense(self, query),
                                                          .key = b.dense(m.states, key),
                                                          .value = b.dense(m.states, value),
                                                          .heads = heads,
                                                          .scale = scale});
    return b.activated(b.add({b.dense(self, own), attended}), m.slope);
  };
  return in_each_direction(settings.transformer.directions,
                           {{{plans::Direction::both, plans::EdgeNorm::sum, /*self_loop=*/false}}, 1, build});
}

}  // namespace foretime::models
