#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/version/build_info.h"

namespace CLI {
class App;
}

/// Divides `foretime` into several programs: the light one that people start (dispatch.cpp), without LibTorch and MPI,
/// and others in core/ next to it, which replace it by exec.
namespace foretime::cli {

/// Lists the programs.
enum class Program {
  light,
  full,         // core/foretime, with LibTorch and MPI
  experiments,  // core/foretime-experiment, which adds the baselines
  server,       // core/foretime-serve, which adds an HTTP server
  board  // core/foretime-board, with HTTP server and pages of the board; not built if their libraries are missing
};

/// Replaces this process by the program of the subcommand argv[1], if that is "experiment" or "serve"; else returns.
void exec_named_program(Program self, char** argv);

/// Returns the line of help of the subcommand "experiment" or "serve".
std::string description_of(std::string_view name);

/// Replaces this process, which is program `self`, by `program`. Throws Error if that is missing or lacks memory.
[[noreturn]] void exec_program(Program self, Program program, char** argv);

/// Adds the subcommands of the programs for experiments and for serving, each of which executes its program.
void add_other_programs(CLI::App& app, Program self, char** argv);

/// Parses the command line with the subcommands of `add_commands` and runs the chosen one. Prints exceptions on
/// standard error. `version` returns the output of --version. Returns the exit code (base/error.h).
int run_program(int argc, char** argv, const std::function<void(CLI::App&)>& add_commands,
                const std::function<std::string()>& version = version_text);

/// Sets up memory and threads of a program that computes with LibTorch. Must be the first call in main; may restart the
/// program.
void prepare_to_compute(char** argv);

}  // namespace foretime::cli
