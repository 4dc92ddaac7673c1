#pragma once

#include <string>

#include "base/error.h"

namespace foretime::models {

/// Settings, plans or files that do not fit a model. The message names what was found and what was expected.
class ModelError : public Error {
 public:
  explicit ModelError(const std::string& message) : Error(kUsage, message) {}
};

}  // namespace foretime::models
