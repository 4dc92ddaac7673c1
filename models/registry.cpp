#include "models/registry.h"

#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/convolutions/specs.h"
#include "models/members.h"
#include "models/statement_cost.h"

namespace foretime::models {
namespace {

using MakeModel = std::function<std::shared_ptr<CostModel>(const configs::ModelSettings&, const InputSchema&)>;

std::shared_ptr<CostModel> make_graph_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  return std::make_shared<GraphModel>(settings, schema, make_propagation(settings, schema));
}

const std::vector<std::pair<std::string, MakeModel>>& registered() {
  static const auto types = [] {
    std::vector<std::pair<std::string, MakeModel>> list = {{"mlp", make_graph_model}};
    for (const auto& name : convolution_names()) list.emplace_back(name, make_graph_model);
    list.emplace_back("stacked", make_graph_model);
    list.emplace_back("residual_gcn", make_graph_model);
    list.emplace_back("preactivated_gcn", make_graph_model);
    list.emplace_back("tpgnn", make_tpgnn);
    list.emplace_back("statement_cost", [](const configs::ModelSettings& settings, const InputSchema& schema) {
      return std::make_shared<StatementCost>(settings, schema);
    });
    return list;
  }();
  return types;
}

}  // namespace

std::shared_ptr<CostModel> make_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  for (const auto& [name, make] : registered()) {
    if (name != settings.type) continue;
    // Statement costs have members of their own.
    if (settings.members <= 1 || name == "statement_cost") return make(settings, schema);
    std::vector<std::shared_ptr<CostModel>> members;
    for (int64_t m = 0; m < settings.members; ++m) members.push_back(make(settings, schema));
    return std::make_shared<Members>(std::move(members));
  }
  throw ModelError(fmt::format("model.type: '{}', expected {}", settings.type, fmt::join(model_types(), ", ")));
}

std::vector<std::string> model_types() {
  std::vector<std::string> names;
  for (const auto& type : registered()) names.push_back(type.first);
  return names;
}

}  // namespace foretime::models
