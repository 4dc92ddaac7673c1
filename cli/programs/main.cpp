#include "base/error.h"
#include "cli/command_line/commands.h"
#include "cli/light/programs.h"
#include "jobs/progress/channel.h"

/// The full program, core/foretime: LibTorch, MPI and NCCL.
int main(int argc, char** argv) {
  using namespace foretime;
  using cli::Program;
  jobs::die_with_parent_if_job();
  cli::prepare_to_compute(argv);
  const auto become_board = [argv](const auto&) { cli::exec_program(Program::full, Program::board, argv); };
  int exit_code = kSuccess;
  const cli::Implementations here = {
      .train = [&](const cli::TrainArguments& arguments) { cli::train(arguments, exit_code); },
      .evaluate = cli::evaluate,
      .export_model = cli::export_model,
      .finetune = [&](const cli::FinetuneArguments& arguments) { cli::finetune(arguments, exit_code); },
      .examine_machine = cli::examine_machine,
      .rank_checkpoints = cli::rank_checkpoints,
      .pack = cli::pack_among_ranks,
      .pack_records = cli::pack_records_among_ranks,
      .board = become_board,
      .report = become_board};
  const int failed = cli::run_program(argc, argv, [&](CLI::App& app) {
    cli::add_commands(app, here, exit_code);
    cli::add_other_programs(app, Program::full, argv);
  });
  return failed != kSuccess ? failed : exit_code;
}
