#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/version/build_info.h"

namespace CLI {
class App;
}

/// `foretime` is several programs: the light one that people start (dispatch.cpp), without LibTorch and MPI, and others
/// in core/ beside it, which it becomes.
namespace foretime::cli {

enum class Program {
  light,
  full,         // core/foretime, with LibTorch and MPI
  experiments,  // core/foretime-experiment, which also has the baselines
  server,       // core/foretime-serve, with an HTTP server
  board         // core/foretime-board, with one and the pages of the board; left out where their libraries are missing
};

/// Where subcommand `name` runs. Names that are not known are the full program's to refuse.
Program program_of(std::string_view name);

/// The line of help of "baseline", "experiment" or "serve".
std::string description_of(std::string_view name);

/// Replaces this process, which is program `self`, by `program`. Throws Error where that cannot be started.
[[noreturn]] void become(Program self, Program program, char** argv);

/// Adds the subcommands of the programs for experiments and for serving, each of which becomes its program.
void add_other_programs(CLI::App& app, Program self, char** argv);

/// Parses the command line with the subcommands that `add_commands` adds, and runs what it names. Exceptions become
/// messages on standard error. `version` makes what --version prints, which the light program answers before another
/// one has begun. Returns the exit code of the program (base/error.h).
int run_program(int argc, char** argv, const std::function<void(CLI::App&)>& add_commands,
                const std::function<std::string()>& version = version_text);

/// For programs that compute with LibTorch: sets up how memory is kept and how threads wait. Call it first in main; it
/// may start the program again.
void prepare_to_compute(char** argv);

}  // namespace foretime::cli
