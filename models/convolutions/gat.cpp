#include "models/convolutions/gat.h"

#include "models/convolutions/products.h"
#include "models/edge_ops.h"

namespace foretime::models {

GatConvolution::GatConvolution(int64_t input, int64_t output, int64_t heads)
    : heads_(heads), linear_(register_module("linear", dense_linear(input, output, false))) {
  const auto draw = [&] {
    auto values = torch::empty({heads, head_width(output, heads)});
    torch::nn::init::xavier_uniform_(values);
    return values;
  };
  target_ = register_parameter("target", draw());
  source_ = register_parameter("source", draw());
  bias_ = register_parameter("bias", torch::zeros({output}));
}

std::vector<data::RelationSpec> GatConvolution::relations() {
  return {{data::Direction::both, data::EdgeNorm::sum, /*self_loop=*/true}};
}

torch::Tensor GatConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&, double slope) {
  constexpr double kScoreSlope = 0.2;  // as published
  const LayerTensors& layer = hops[0];
  const CsrTensor& matrix = layer.relations[0];
  const auto z = linear_->forward(states);
  const auto by_head = z.view({z.size(0), heads_, -1});
  // a · [z_i, z_j] is the sum of two products, each taken once a state.
  const auto of_source = (by_head * source_).sum(2), of_target = own_states((by_head * target_).sum(2), layer);
  const auto sources = entry_sources(matrix), targets = entry_targets(matrix);
  const auto logits = csr_sum({{&sources, of_source}, {&targets, of_target}}, {.slope = kScoreSlope});
  return activated(weighted_sum(matrix, edge_softmax(matrix, logits), z) + bias_, slope);
}

}  // namespace foretime::models
