#include "models/registry.h"

namespace foretime::models {

Propagation residual_gcn_propagation(const configs::ModelSettings& settings, const InputSchema& schema) {
  const int64_t layout_width = schema.kind == data::CandidateKind::layout ? data::kLayoutFeatures : 0;
  Propagation result;
  result.layers = settings.layers;
  result.relations = ResidualGcnConvolution::relations();
  result.residual = true;
  result.make_convolution = [layout_width, width = settings.hidden, activation = Activation(settings),
                             dropout = settings.dropout] {
    return std::make_shared<ResidualGcnConvolution>(layout_width, width, activation, dropout);
  };
  return result;
}

}  // namespace foretime::models
