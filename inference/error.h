#pragma once

#include <string>

#include "base/error.h"

namespace foretime::inference {

/// A bundle, or a form or tensor in it, that is damaged, of another version, or does not fit its parts or what it is
/// given. The message says what was found and what was expected.
class BundleError : public Error {
 public:
  explicit BundleError(const std::string& message) : Error(kData, message) {}
};

}  // namespace foretime::inference
