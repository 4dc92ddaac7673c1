#pragma once

#include <cstdint>

#include "base/error.h"

/// Integer arithmetic on numbers that come from files: leaving 64 bits is bad
/// input.
namespace foretime::data {

/// Below ±2^62, so that a number can also be negated.
inline int64_t checked(__int128 value) {
  constexpr __int128 kMost = __int128{1} << 62;
  if (value > kMost || value < -kMost) throw DataError("a bound beyond 2^62");
  return static_cast<int64_t>(value);
}
inline int64_t checked_add(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) + b); }
inline int64_t checked_subtract(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) - b); }
inline int64_t checked_multiply(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) * b); }

/// Towards minus infinity; the divisor is above 0.
inline int64_t floor_quotient(int64_t a, int64_t divisor) { return a / divisor - (a % divisor < 0 ? 1 : 0); }

/// In 0 to divisor − 1.
inline int64_t floor_remainder(int64_t a, int64_t divisor) {
  const int64_t rest = a % divisor;
  return rest < 0 ? rest + divisor : rest;
}

}  // namespace foretime::data
