#pragma once

#include <cstdio>
#include <cstdlib>

namespace foretime::fuzz {

/// Ends the process where a promise is broken.
inline void require(bool kept, const char* promise, const char* detail) {
  if (kept) return;
  std::fprintf(stderr, "fuzz: broken promise: %s (%s)\n", promise, detail);
  std::abort();
}

}  // namespace foretime::fuzz
