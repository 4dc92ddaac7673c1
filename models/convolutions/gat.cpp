#include "models/convolutions/convolution.h"

namespace foretime::models {
namespace {

constexpr double kScoreSlope = 0.2;  // as published

}  // namespace

/// Graph attention (Veličković et al., arXiv 1710.10903; Xu et al. 2024, formulas 2 and 3): with z = W x, for each head
///   α_ij = softmax over the neighbours j of i, itself among them, of LeakyReLU(a · [z_i, z_j])
///   result_i = Σ_j α_ij z_j, the heads side by side, + b.
/// a · [z_i, z_j] is the sum of two products, each taken once a state. Parameters: linear.weight, target and source
/// [heads, width of a head] (the two parts of a), bias.
Convolution gat(const configs::ModelSettings& settings, const InputSchema&) {
  const int64_t width = settings.hidden, heads = settings.gat.heads, of_head = head_width(width, heads);
  const auto build = [width, heads, of_head](GraphBuilder& b, const Messages& m) {
    const auto linear = b.linear("linear", b.width(m.states), width, false);
    const auto target = b.parameter("target", {heads, of_head}, {Initial::Kind::xavier_uniform});
    const auto source = b.parameter("source", {heads, of_head}, {Initial::Kind::xavier_uniform});
    const auto bias = b.parameter("bias", {width}, {});
    const Value z = b.dense(m.states, linear);
    const Value of_source = b.emit(inference::HeadDot{.x = z, .weight = source});
    const Value of_target = m.own(b, b.emit(inference::HeadDot{.x = z, .weight = target}));
    const Value attended = b.emit(inference::AdditiveAttention{
        .matrix = m.relation(0), .target = of_target, .source = of_source, .x = z, .slope = kScoreSlope});
    return b.activated(b.add({attended}, {}, bias), m.slope);
  };
  return in_each_direction(settings.gat.directions,
                           {{{plans::Direction::both, plans::EdgeNorm::sum, /*self_loop=*/true}}, 1, build});
}

}  // namespace foretime::models
