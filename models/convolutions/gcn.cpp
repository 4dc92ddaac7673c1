#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Graph convolution (Kipf and Welling, arXiv 1609.02907): Â x Wᵀ + b, Â = D^-½ (A + Aᵀ + I) D^-½. Parameters:
/// linear.weight, linear.bias.
Convolution gcn(const configs::ModelSettings& settings, const InputSchema&) {
  const auto build = [width = settings.hidden](GraphBuilder& b, const Messages& m) {
    const auto linear = b.linear("linear", b.width(m.states), width, true);
    return b.emit(inference::CsrDense{
        .x = m.states, .matrices = {m.relation(0)}, .weights = {linear.weight}, .bias = linear.bias, .slope = m.slope});
  };
  return {{{plans::Direction::both, plans::EdgeNorm::symmetric, /*self_loop=*/true}}, 1, build};
}

}  // namespace foretime::models
