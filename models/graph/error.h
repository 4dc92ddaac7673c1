#pragma once

#include "base/error.h"

namespace foretime::models {

/// Settings, plans or files that do not fit a model. The message names what was found and what was expected.
struct ModelError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

}  // namespace foretime::models
