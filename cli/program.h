#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace foretime::cli {

/// Parses the command line with the subcommands that `add_commands` adds, and runs what it names. Exceptions become
/// messages on standard error. Returns the exit code of the program (base/error.h).
int run_program(int argc, char** argv, const std::function<void(CLI::App&)>& add_commands);

/// For programs that compute with LibTorch: sets up how memory is kept and how threads wait. Call it first in main; it
/// may start the program again.
void prepare_to_compute(char** argv);

}  // namespace foretime::cli
