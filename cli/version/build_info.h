#pragma once

#include <string>

namespace foretime::cli {

/// What `foretime --version` prints: version, commit, and what was built against, each on a line of its own.
std::string build_text();
/// The version alone: 0.2.0.
std::string version_text();

}  // namespace foretime::cli
