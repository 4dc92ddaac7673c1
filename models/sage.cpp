#include "models/registry.h"

namespace foretime::models {

Propagation sage_propagation(const configs::ModelSettings& settings, const InputSchema&) {
  Propagation result;
  result.layers = settings.layers;
  result.relations = SageConvolution::relations();
  result.residual = settings.residual;
  result.l2_normalize = settings.l2_normalize;
  result.make_convolution = [width = settings.hidden] { return std::make_shared<SageConvolution>(width, width); };
  return result;
}

}  // namespace foretime::models
