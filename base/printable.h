#pragma once

#include <string>
#include <string_view>

namespace foretime {

/// A name from a file for messages: printable ASCII, not longer than a line.
std::string printable(std::string_view name);

}  // namespace foretime
