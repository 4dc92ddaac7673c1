#include "base/duration.h"

#include <fmt/format.h>

namespace foretime {

std::string duration_text(double seconds) {
  const int64_t whole = seconds + 0.5;
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace foretime
