#include "models/registry.h"

#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::models {
namespace {

using MakePropagation = Propagation (*)(const configs::ModelSettings&, const InputSchema&);

const std::vector<std::pair<std::string, MakePropagation>>& registered() {
  static const std::vector<std::pair<std::string, MakePropagation>> types = {
      {"mlp", mlp_propagation},
      {"gcn", gcn_propagation},
      {"sage", sage_propagation},
      {"residual_gcn", residual_gcn_propagation},
  };
  return types;
}

}  // namespace

std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  for (const auto& [name, make] : registered()) {
    if (name == settings.type) return std::make_shared<GraphModel>(settings, schema, make(settings, schema));
  }
  throw ModelError(fmt::format("model.type: '{}', expected {}", settings.type, fmt::join(model_types(), ", ")));
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const auto& type : registered()) names.push_back(type.first);
  return names;
}

}  // namespace foretime::models
