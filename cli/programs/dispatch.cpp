#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command_line/commands.h"
#include "cli/light/address_space.h"
#include "cli/light/programs.h"
#include "cli/version/build_info.h"
#include "comm/mpi/launched.h"

/// `foretime` as people start it: a small program without LibTorch and MPI. It runs some subcommands itself, in a few
/// MiB of memory, and becomes another program for the rest.
namespace {

using namespace foretime;
using cli::Program;

/// Returns the implementations of the light program, which is replaced by the full program or by the board where those
/// are needed. Arguments and settings are checked before.
cli::Implementations light_implementations(char** argv) {
  const auto become = [argv](Program program) {
    return [argv, program](const auto&) { cli::exec_program(Program::light, program, argv); };
  };
  const auto become_full = become(Program::full);
  return {.train =
              [become_full](const cli::TrainArguments& arguments) {
                std::error_code unknown;
                // A pipe can be read only once.
                if (!std::filesystem::is_other(arguments.file, unknown)) cli::checked_settings(arguments);
                become_full(arguments);
              },
          .evaluate = become_full,
          .export_model = become_full,
          .finetune = become_full,
          .examine_machine = become_full,
          .rank_checkpoints = become_full,
          .pack =
              [become_full](const cli::PackArguments& arguments) {
                if (comm::launched_by_mpi()) become_full(arguments);
                cli::pack(arguments);
              },
          .pack_records =
              [become_full](const data::RecordPackRequest& request) {
                if (comm::launched_by_mpi()) become_full(request);
                cli::pack_records(request);
              },
          .board = become(Program::board),
          .report = become(Program::board)};
}

/// Runs before the libraries are initialised: OpenBLAS would loop there.
void require_address_space(int, char**, char** environment) {
  const uint64_t least = cli::least_address_space(cli::kLightProgramBytes, environment);
  const uint64_t limit = cli::address_space_limit();
  if (limit >= least) return;
  std::array<char, 300> text{};
  const int size = std::snprintf(
      text.data(), text.size(),
      "foretime: out of memory: a process may have %llu KiB of address space (ulimit -v), expected at least %llu: "
      "128 MiB for each thread of OpenBLAS; raise the limit (ulimit -v unlimited), or set OMP_NUM_THREADS=1\n",
      static_cast<unsigned long long>(limit >> 10), static_cast<unsigned long long>(least >> 10));
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), size);
  ::_exit(kOutOfMemory);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = require_address_space;

}  // namespace

int main(int argc, char** argv) {
  int exit_code = kSuccess;
  const int failed = cli::run_program(
      argc, argv,
      [&](CLI::App& app) {
        cli::exec_named_program(Program::light, argv);
        cli::add_commands(app, light_implementations(argv), exit_code);
        cli::add_other_programs(app, Program::light, argv);
      },
      [] { return cli::build_text(cli::kCommit); });
  return failed != kSuccess ? failed : exit_code;
}
