#include "models/architectures/build_model.h"

#include "models/architectures/graph_model.h"

namespace foretime::models {

ModelGraph build_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (settings.type == configs::ModelType::tpgnn) return tpgnn(settings, schema);
  if (settings.type == configs::ModelType::statement_cost) return statement_cost(settings, schema);
  return graph_model(settings, schema);
}

}  // namespace foretime::models
