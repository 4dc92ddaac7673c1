#include "models/convolutions/registry.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::models {
namespace {

/// A convolution more is a file beside this one and a line here.
const std::vector<std::pair<std::string, MakeConvolution*>> kConvolutions = {
    {"gcn", gcn}, {"sage", sage}, {"gin", gin}, {"gat", gat}, {"chebnet", chebnet}, {"transformer", transformer},
};

Convolution convolution_named(const std::string& name, const configs::ModelSettings& settings,
                              const InputSchema& schema) {
  for (const auto& [known, make] : kConvolutions) {
    if (known == name) return make(settings, schema);
  }
  throw ModelError(fmt::format("model.convolutions: '{}', expected {}", name, fmt::join(convolution_names(), ", ")));
}

}  // namespace

std::vector<std::string> convolution_names() {
  std::vector<std::string> names;
  for (const auto& convolution : kConvolutions) names.push_back(convolution.first);
  return names;
}

Propagation make_propagation(const configs::ModelSettings& settings, const InputSchema& schema) {
  const auto layers = static_cast<size_t>(settings.layers);
  Propagation result;
  if (settings.type == "mlp") return result;
  if (settings.type == "residual_gcn") {
    result = {.layers = std::vector(layers, residual_gcn(settings, schema)), .residual = true};
  } else if (settings.type == "preactivated_gcn") {
    result = {
        .layers = std::vector(layers, preactivated_gcn(settings, schema)), .residual = true, .activates_before = true};
  } else {
    result = {.residual = settings.residual, .l2_normalize = settings.l2_normalize};
    const auto types = settings.type == "stacked" ? settings.convolutions : std::vector(layers, settings.type);
    for (const auto& type : types) result.layers.push_back(convolution_named(type, settings, schema));
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
