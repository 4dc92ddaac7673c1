#pragma once

#include "base/error.h"

namespace foretime::configs {

/// Reports a setting that is unknown, malformed or out of bounds. The message has the file and line (or the override),
/// the key's full name, the found and the expected value; for an unknown key also the nearest known one.
struct SettingsError : ErrorOf<kUsage> {
  using ErrorOf::ErrorOf;
};

}  // namespace foretime::configs
