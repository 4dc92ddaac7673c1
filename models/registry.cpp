#include "models/registry.h"

#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/statement_cost.h"

namespace foretime::models {
namespace {

using MakeModel = std::function<std::shared_ptr<CostModel>(const configs::ModelSettings&, const InputSchema&)>;

/// A GraphModel whose states pass messages in this way.
MakeModel graph_model(Propagation (*propagation)(const configs::ModelSettings&, const InputSchema&)) {
  return [propagation](const configs::ModelSettings& settings, const InputSchema& schema) {
    return std::make_shared<GraphModel>(settings, schema, propagation(settings, schema));
  };
}

const std::vector<std::pair<std::string, MakeModel>>& registered() {
  static const std::vector<std::pair<std::string, MakeModel>> types = {
      {"mlp", graph_model(mlp_propagation)},
      {"gcn", graph_model(gcn_propagation)},
      {"sage", graph_model(sage_propagation)},
      {"residual_gcn", graph_model(residual_gcn_propagation)},
      {"tpgnn", make_tpgnn},
      {"statement_cost",
       [](const configs::ModelSettings& settings, const InputSchema& schema) -> std::shared_ptr<CostModel> {
         return std::make_shared<StatementCost>(settings, schema);
       }},
  };
  return types;
}

}  // namespace

std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  for (const auto& [name, make] : registered()) {
    if (name == settings.type) return make(settings, schema);
  }
  throw ModelError(fmt::format("model.type: '{}', expected {}", settings.type, fmt::join(model_types(), ", ")));
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const auto& type : registered()) names.push_back(type.first);
  return names;
}

}  // namespace foretime::models
