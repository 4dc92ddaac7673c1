#include "models/convolutions/convolution.h"

namespace foretime::models {

/// GraphSAGE (Hamilton et al., arXiv 1706.02216). Neighbours' states x are aggregated by their mean, sum or maximum
/// (0 for a node without neighbours), producers and consumers apart,
///   W_self x + W_in agg(x of producers) + W_out agg(x of consumers) + b,
/// or both together, as TpuGraphs' EarlyJoinSAGE does: W_self x + W agg(x of neighbours) + b.
/// Parameters: own.weight, own.bias, and producers.weight and consumers.weight, or neighbours.weight.
Convolution sage(const configs::ModelSettings& settings, const InputSchema&) {
  using configs::Aggregation;
  const auto [aggregation, directions] = settings.sage;
  const bool apart = directions == configs::Directions::apart, maximum = aggregation == Aggregation::max;
  const auto norm = aggregation == Aggregation::mean ? plans::EdgeNorm::mean : plans::EdgeNorm::sum;
  const auto build = [apart, maximum, width = settings.hidden](GraphBuilder& b, const Messages& m) {
    const int64_t input = b.width(m.states);
    const auto own = b.linear("own", input, width, true);
    std::vector<WeightRef> others;
    for (const char* name : apart ? std::vector{"producers", "consumers"} : std::vector{"neighbours"})
      others.push_back(b.linear(name, input, width, false).weight);
    if (!maximum) {
      inference::CsrDense sum{.x = m.states, .bias = own.bias, .slope = m.slope};
      for (size_t r = 0; r < others.size(); ++r) {
        sum.matrices.push_back(m.relation(r));
        sum.weights.push_back(others[r]);
      }
      sum.matrices.push_back(m.hops[0].self);
      sum.weights.push_back(own.weight);
      return b.emit(std::move(sum));
    }
    std::vector<GraphBuilder::Term> terms = {{m.hops[0].self, b.dense_part(m.states, own.weight, 0)}};
    for (size_t r = 0; r < others.size(); ++r) {
      const Value largest = b.emit(inference::CsrMax{.x = m.states, .matrix = m.relation(r)});
      terms.emplace_back(MatrixRef{}, b.dense_part(largest, others[r], 0));
    }
    return b.csr_sum(terms, own.bias, m.slope);
  };
  const plans::RelationSpec both{plans::Direction::both, norm, false}, in{plans::Direction::in, norm, false},
      out{plans::Direction::out, norm, false};
  return {apart ? std::vector{in, out} : std::vector{both}, 1, build};
}

}  // namespace foretime::models
