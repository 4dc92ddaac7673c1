#include <fmt/format.h>

#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Chebyshev spectral convolution (Defferrard et al., arXiv 1606.09375):
///   Σ_k<K T_k(L̃) x W_k + b, T_0 = x, T_1 = L̃ x, T_k = 2 L̃ T_(k-1) - T_(k-2),
/// L̃ = L - I the Laplacian of the undirected graph, scaled with the bound 2 of its eigenvalues, K model.chebnet.order.
/// It spans K - 1 layers of the plan, since T_k reaches k steps: each T_k stands one level higher than the one before,
/// and what comes from below goes up by each state's own. Parameters: terms.0.weight … terms.(K-1).weight,
/// terms.0.bias.
Convolution chebnet(const configs::ModelSettings& settings, const InputSchema&) {
  const int64_t order = settings.chebnet.order;
  if (order < 1) throw ModelError("model.chebnet.order: {}, expected at least 1", order);
  const auto build = [order, width = settings.hidden](GraphBuilder& b, const Messages& m) {
    std::vector<Linear> terms;
    for (int64_t k = 0; k < order; ++k)
      terms.push_back(b.linear(fmt::format("terms.{}", k), b.width(m.states), width, /*bias=*/k == 0));
    Value sum = b.dense(m.states, terms[0]), previous, current = m.states;
    for (size_t k = 1; k < terms.size(); ++k) {
      const Hop& hop = m.hops[k - 1];
      const auto own = [&](Value value) { return b.csr_sum({{hop.self, value}}); };
      Value next = b.csr_sum({{hop.relations[0], current}});
      if (previous.defined()) next = b.add({next, own(previous)}, {2.0, -1.0});
      previous = own(current);
      sum = b.add({own(sum), b.dense(next, terms[k])});
      current = next;
    }
    return b.activated(sum, m.slope);
  };
  return {{{plans::Direction::both, plans::EdgeNorm::laplacian_of_two, /*self_loop=*/false}}, order - 1, build};
}

}  // namespace foretime::models
