#pragma once

#include <exception>

namespace foretime::cli {

/// The program's exit code for an exception of what needs neither LibTorch nor MPI: 2 for settings and options, 3 for
/// data and bundles, else 1.
int light_exit_code_of(const std::exception& error);

}  // namespace foretime::cli
