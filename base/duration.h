#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace foretime {

/// Returns a duration of `seconds` in whole milliseconds, rounded towards 0.
constexpr std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

/// Returns a duration, rounded to whole seconds, as MINUTES:SECONDS ("1:05"), from one hour on as H:MM:SS ("2:03:09").
std::string duration_text(double seconds);

}  // namespace foretime
