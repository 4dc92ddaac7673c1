#include "models/convolutions/gat.h"

#include "models/convolutions/products.h"
#include "models/sparse/edge_ops.h"

namespace foretime::models {
namespace {

constexpr double kScoreSlope = 0.2;  // as published

}  // namespace

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

std::vector<plans::RelationSpec> GatConvolution::relations() {
  return {{plans::Direction::both, plans::EdgeNorm::sum, /*self_loop=*/true}};
}

torch::Tensor GatConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&, double slope) {
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

std::string GatConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                     const FormLayout&, double slope) const {
  const auto z = writer.dense(states, writer.weight(linear_->weight));
  // Σ over the columns of a head, as a product with a matrix that is zero outside of it.
  const int64_t width = target_.size(1);
  const auto by_head = [&](const torch::Tensor& of_head) {
    auto matrix = torch::zeros({heads_, heads_ * width});
    for (int64_t h = 0; h < heads_; ++h) matrix[h].narrow(0, h * width, width).copy_(of_head[h]);
    return writer.dense(z, writer.constant(matrix));
  };
  const auto of_target = own_states(writer, by_head(target_), hops[0]), of_source = by_head(source_);
  const auto attended =
      writer.emit({.op = "attention",
                   .result = {},
                   .inputs = {of_target, of_source, z},
                   .matrices = {hops[0].relations[0]},
                   .mode = "additive",
                   .numbers = {{"heads", static_cast<double>(heads_)}, {"logit_slope", kScoreSlope}}});
  return writer.activated(writer.add({attended}, {}, writer.weight(bias_)), slope);
}

}  // namespace foretime::models
