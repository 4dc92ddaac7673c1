#include "models/convolutions/chebnet.h"

#include "models/convolutions/products.h"

namespace foretime::models {

ChebConvolution::ChebConvolution(int64_t input, int64_t output, int64_t order) {
  const auto terms = register_module("terms", torch::nn::ModuleList());
  for (int64_t k = 0; k < order; ++k) {
    terms_.push_back(dense_linear(input, output, /*bias=*/k == 0));
    terms->push_back(terms_.back());
  }
}

std::vector<plans::RelationSpec> ChebConvolution::relations(bool estimated) {
  const auto norm = estimated ? plans::EdgeNorm::laplacian : plans::EdgeNorm::laplacian_of_two;
  return {{plans::Direction::both, norm, /*self_loop=*/false}};
}

torch::Tensor ChebConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&, double slope) {
  // Each T_k stands one level higher than the one before, and what comes from below goes up by each state's own.
  auto sum = terms_[0]->forward(states);
  auto previous = torch::Tensor(), current = states;
  for (size_t k = 1; k < terms_.size(); ++k) {
    const LayerTensors& hop = hops[k - 1];
    const auto propagated = csr_matmul(hop.relations[0], current);
    const auto next = previous.defined() ? 2 * propagated - own_states(previous, hop) : propagated;
    previous = own_states(current, hop);
    sum = own_states(sum, hop) + terms_[k]->forward(next);
    current = next;
  }
  return activated(sum, slope);
}

std::string ChebConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                      const FormLayout&, double slope) const {
  auto sum = writer.dense(states, writer.weight(terms_[0]->weight), writer.weight(terms_[0]->bias));
  std::string previous, current = states;
  for (size_t k = 1; k < terms_.size(); ++k) {
    const FormHop& hop = hops[k - 1];
    auto next = writer.csr_sum({{hop.relations[0], current}});
    if (!previous.empty()) next = writer.add({next, own_states(writer, previous, hop)}, {2.0, -1.0});
    previous = own_states(writer, current, hop);
    sum = writer.add({own_states(writer, sum, hop), writer.dense(next, writer.weight(terms_[k]->weight))});
    current = next;
  }
  return writer.activated(sum, slope);
}

}  // namespace foretime::models
