#include "models/convolutions/registry.h"

#include <algorithm>
#include <vector>

namespace foretime::models {
namespace {

/// In the order of configs::ConvolutionType.
constexpr MakeConvolution* kConvolutions[] = {FORETIME_CONVOLUTIONS};

}  // namespace

Propagation make_propagation(const configs::ModelSettings& settings, const InputSchema& schema) {
  const auto layers = static_cast<size_t>(settings.layers);
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
      result.layers.push_back(kConvolutions[static_cast<size_t>(type)](settings, schema));
  }
  for (const auto& layer : result.layers) {
    for (const auto& relation : layer.relations) {
      if (std::find(result.relations.begin(), result.relations.end(), relation) == result.relations.end())
        result.relations.push_back(relation);
    }
  }
  return result;
}

}  // namespace foretime::models
