#include "models/convolutions/convolution.h"

#include <algorithm>

#include "base/index_range.h"

namespace foretime::models {
namespace {

/// Makers of the convolutions, by configs::ConvolutionType.
constexpr MakeConvolution* kConvolutions[] = {FORETIME_CONVOLUTIONS};

}  // namespace

Value Messages::own(GraphBuilder& builder, Value value) const {
  for (const Hop& hop : hops) value = builder.csr_sum({{hop.self, value}});
  return value;
}

int64_t head_width(int64_t width, int64_t heads) {
  if (heads < 1 || width % heads != 0)
    throw ModelError("heads: {}, expected a divisor of model.hidden, {}", heads, width);
  return width / heads;
}

Convolution in_each_direction(configs::Directions directions, const Convolution& convolution) {
  if (directions == configs::Directions::together) return convolution;
  auto producers = convolution.relations.at(0), consumers = producers;
  producers.direction = plans::Direction::in;
  consumers.direction = plans::Direction::out;
  const auto build = [part = convolution.build](GraphBuilder& b, const Messages& messages) {
    const auto one = [&](const char* name, size_t relation) {
      const GraphBuilder::Scope scope(b, name);
      Messages own = messages;
      for (Hop& hop : own.hops) hop.relations = {hop.relations.at(relation)};
      own.slope = 1.0;
      return part(b, own);
    };
    const Value first = one("producers", 0);
    return b.activated(b.add({first, one("consumers", 1)}), messages.slope);
  };
  return {{producers, consumers}, convolution.hops, build};
}

Propagation make_propagation(const configs::ModelSettings& settings, const InputSchema& schema) {
  const size_t layers = settings.layers;
  Propagation result;
  if (settings.type == configs::ModelType::mlp) return result;
  if (settings.type == configs::ModelType::residual_gcn) {
    result = {.layers = std::vector(layers, residual_gcn(settings, schema)), .residual = true};
  } else if (settings.type == configs::ModelType::preactivated_gcn) {
    result = {
        .layers = std::vector(layers, preactivated_gcn(settings, schema)), .residual = true, .activates_before = true};
  } else {
    result = {.residual = settings.residual, .l2_normalize = settings.l2_normalize};
    const auto one = configs::choice_named<configs::ConvolutionType>(word_of(settings.type));
    for (const auto type : one ? std::vector(layers, *one) : settings.stacked.convolutions)
      result.layers.push_back(kConvolutions[index_of(type)](settings, schema));
  }
  for (const auto& layer : result.layers) {
    for (const auto& relation : layer.relations)
      if (std::find(result.relations.begin(), result.relations.end(), relation) == result.relations.end())
        result.relations.push_back(relation);
  }
  return result;
}

}  // namespace foretime::models
