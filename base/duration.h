#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace foretime {

/// Returns a duration in whole milliseconds, rounded towards 0.
constexpr std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

/// Returns a duration such as 1:05 or 2:03:09.
std::string duration_text(double seconds);

}  // namespace foretime
