#pragma once

#include <stdexcept>

namespace foretime::inference {

/// A bundle, or a form or tensor in it, that is damaged, of another version, or does not fit its parts or what it is
/// given. The message says what was found and what was expected.
class BundleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace foretime::inference
