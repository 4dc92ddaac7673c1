#pragma once

#include <string>

namespace foretime {

/// Returns a duration such as 1:05 or 2:03:09.
std::string duration_text(double seconds);

}  // namespace foretime
