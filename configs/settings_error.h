#pragma once

#include "base/error.h"

namespace foretime::configs {

/// A setting that is unknown, malformed or out of bounds. The message names the file and line (or the override), the
/// key's full name, what was found and what was expected; an unknown key comes with the nearest known one.
struct SettingsError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

}  // namespace foretime::configs
