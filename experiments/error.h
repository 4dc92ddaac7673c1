#pragma once

#include <string>

#include "base/error.h"

namespace foretime::experiments {

/// An experiment that contradicts itself or names what is not there; names file, key, value and what was expected.
class ExperimentError : public Error {
 public:
  explicit ExperimentError(const std::string& message) : Error(kUsage, message) {}
};

}  // namespace foretime::experiments
