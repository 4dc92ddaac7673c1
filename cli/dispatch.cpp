#include <array>
#include <cstdio>
#include <exception>

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "base/message.h"
#include "cli/address_space.h"
#include "cli/data_command.h"
#include "cli/jobs/board.h"
#include "cli/parsing/commands.h"
#include "cli/programs.h"
#include "cli/rank_command.h"
#include "cli/version/build_info.h"
#include "comm/mpi/launched.h"

/// `foretime` as people start it: a small program without LibTorch and MPI. It runs some subcommands itself, in a few
/// MiB of memory, and becomes another program for the rest.
namespace {

using namespace foretime;
using cli::Program;

void add_light_commands(CLI::App& app, char** argv) {
  const auto become_full = [argv] { cli::exec_program(Program::light, Program::full, argv); };
  cli::add_data_command(
      app,
      [become_full](const cli::PackArguments& arguments) {
        if (comm::launched_by_mpi()) become_full();
        cli::pack(arguments);
      },
      [become_full](const data::RecordPackRequest& request) {
        if (comm::launched_by_mpi()) become_full();
        cli::pack_records(request);
      });
  cli::add_bundle_command(app);
  cli::add_pretrained_command(app);
  cli::add_target_command(app);
  cli::add_rank_command(app, [become_full](const cli::RankArguments&) { become_full(); });
  cli::add_submit_command(app);
  cli::add_status_command(app);
  cli::add_leaderboard_command(app);
  cli::add_log_command(app);
  cli::add_history_command(app);
  cli::add_board_command(
      app, [argv](const cli::BoardArguments&) { cli::exec_program(Program::light, Program::board, argv); });
  cli::add_report_command(
      app, [argv](const cli::ReportArguments&) { cli::exec_program(Program::light, Program::board, argv); });
  cli::add_queue_command(app);
  cli::add_clean_command(app);
  cli::add_control_commands(app);
}

/// Runs before the libraries are initialised: OpenBLAS would loop there.
void require_address_space(int, char**, char** environment) {
  const uint64_t least = cli::least_address_space(cli::kLightProgramBytes, environment);
  const uint64_t limit = cli::address_space_limit();
  if (limit >= least) return;
  std::array<char, 300> text{};
  const int size =
      std::snprintf(text.data(), text.size(),
                    "foretime: out of memory: a process may have %llu KiB of address space (ulimit -v), "
                    "expected at least %llu: 128 MiB for each thread of OpenBLAS; raise the limit (ulimit "
                    "-v unlimited), or set OMP_NUM_THREADS=1\n",
                    static_cast<unsigned long long>(limit >> 10), static_cast<unsigned long long>(least >> 10));
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), static_cast<size_t>(size));
  ::_exit(kOutOfMemory);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = require_address_space;

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto program = cli::program_of(argc > 1 ? argv[1] : "");
    if (program != Program::light) cli::exec_program(Program::light, program, argv);
  } catch (const std::exception& error) {
    print_message("foretime: {}\n", error.what());
    return exit_code_of(error);
  }
  return cli::run_program(
      argc, argv, [argv](CLI::App& app) { add_light_commands(app, argv); },
      [] { return cli::build_text(cli::kCommit); });
}
