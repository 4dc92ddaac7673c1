#pragma once

#include "base/error.h"

namespace foretime::models {

/// Reports settings, plans or files that do not match a model. The message names the found and the expected value.
struct ModelError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

}  // namespace foretime::models
