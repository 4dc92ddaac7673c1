#pragma once

#include <string>

#include "base/error.h"

namespace foretime::coordinator {

/// A run directory or a checkpoint that cannot be used: damaged, of another model, of another configuration.
class RunError : public Error {
 public:
  explicit RunError(const std::string& message) : Error(kData, message) {}
};

}  // namespace foretime::coordinator
