#include "models/convolutions/gcn.h"

#include "models/convolutions/products.h"

namespace foretime::models {

GcnConvolution::GcnConvolution(int64_t input, int64_t output)
    : linear_(register_module("linear", dense_linear(input, output, true))) {}

std::vector<plans::RelationSpec> GcnConvolution::relations() {
  return {{plans::Direction::both, plans::EdgeNorm::symmetric, /*self_loop=*/true}};
}

torch::Tensor GcnConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&, double slope) {
  const CsrTensor& matrix = hops[0].relations[0];
  if (multiplies_first(matrix, linear_->weight)) {
    return csr_sum({{&matrix, torch::linear(states, linear_->weight)}}, {linear_->bias, slope});
  }
  return activated(linear_->forward(csr_matmul(matrix, states)), slope);
}

std::string GcnConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                     const FormLayout&, double slope) const {
  const auto z = writer.dense(states, writer.weight(linear_->weight));
  return writer.csr_sum({{hops[0].relations[0], z}}, writer.weight(linear_->bias), slope);
}

}  // namespace foretime::models
