#include "models/registry.h"

namespace foretime::models {

Propagation mlp_propagation(const configs::ModelSettings&, const InputSchema&) { return {}; }

}  // namespace foretime::models
