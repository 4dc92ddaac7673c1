#pragma once

#include "base/error.h"

namespace foretime::configs {

/// Reports a setting or argument that is unknown, malformed, out of bounds or in conflict. The message has the file and
/// line (or the override), the key, the found and the expected value; for an unknown key also the nearest known one.
struct SettingsError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

}  // namespace foretime::configs
