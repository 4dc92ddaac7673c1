#pragma once

#include <CLI/CLI.hpp>

/// `foretime data convert`.
namespace foretime::cli {

void add_convert(CLI::App& data_command);

}  // namespace foretime::cli
