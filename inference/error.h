#pragma once

#include "base/error.h"

namespace foretime::inference {

/// A bundle, or a form or tensor in it, that is damaged, of another version, or does not fit its parts or what it is
/// given. The message says what was found and what was expected.
struct BundleError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

}  // namespace foretime::inference
