#pragma once

#include <CLI/CLI.hpp>

namespace foretime::cli {

/// `foretime bundle show | inputs`, without LibTorch.
void add_bundle_command(CLI::App& app);

}  // namespace foretime::cli
