#pragma once

#include "base/error.h"

namespace foretime::coordinator {

/// A run directory or a checkpoint that cannot be used: damaged, of another model, of another configuration.
struct RunError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

}  // namespace foretime::coordinator
