#include "models/architectures/build_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/architectures/graph_model.h"
#include "models/convolutions/registry.h"

namespace foretime::models {

ModelGraph build_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (settings.type == "tpgnn") return tpgnn(settings, schema);
  if (settings.type == "statement_cost") return statement_cost(settings, schema);
  for (const auto& name : model_types()) {
    if (name == settings.type) return graph_model(settings, schema);
  }
  throw ModelError(fmt::format("model.type: '{}', expected {}", settings.type, fmt::join(model_types(), ", ")));
}

std::vector<std::string> model_types() {
  std::vector<std::string> names = {"mlp"};
  for (const auto& name : convolution_names()) names.push_back(name);
  for (const char* name : {"stacked", "residual_gcn", "preactivated_gcn", "tpgnn", "statement_cost"})
    names.emplace_back(name);
  return names;
}

}  // namespace foretime::models
