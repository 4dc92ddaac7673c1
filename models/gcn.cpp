#include "models/registry.h"

namespace foretime::models {

Propagation gcn_propagation(const configs::ModelSettings& settings, const InputSchema&) {
  Propagation result;
  result.layers = settings.layers;
  result.relations = GcnConvolution::relations();
  result.residual = settings.residual;
  result.make_convolution = [width = settings.hidden] { return std::make_shared<GcnConvolution>(width, width); };
  return result;
}

}  // namespace foretime::models
