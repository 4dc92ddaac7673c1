#include "base/error.h"
#include "cli/jobs/board.h"
#include "cli/parsing/commands.h"
#include "cli/programs.h"
#include "jobs/progress/channel.h"

int main(int argc, char** argv) {
  using namespace foretime;
  jobs::die_with_parent_if_job();
  cli::prepare_to_compute(argv);
  int exit_code = kSuccess;
  const int failed = cli::run_program(argc, argv, [&](CLI::App& app) {
    cli::add_train_command(app, exit_code);
    cli::add_evaluate_command(app);
    cli::add_rank_command(app);
    cli::add_data_command(app);
    cli::add_bundle_command(app);
    cli::add_pretrained_command(app);
    cli::add_target_command(app);
    cli::add_config_command(app);
    cli::add_export_command(app);
    cli::add_finetune_command(app, exit_code);
    cli::add_doctor_command(app);
    cli::add_plan_command(app);
    cli::add_submit_command(app);
    cli::add_agent_command(app, exit_code);
    cli::add_status_command(app);
    cli::add_leaderboard_command(app);
    cli::add_log_command(app);
    cli::add_history_command(app);
    cli::add_board_command(
        app, [argv](const cli::BoardArguments&) { cli::exec_program(cli::Program::full, cli::Program::board, argv); });
    cli::add_report_command(
        app, [argv](const cli::ReportArguments&) { cli::exec_program(cli::Program::full, cli::Program::board, argv); });
    cli::add_queue_command(app);
    cli::add_clean_command(app);
    cli::add_control_commands(app);
    cli::add_completion_command(app);
    cli::add_other_programs(app, cli::Program::full, argv);
  });
  return failed != kSuccess ? failed : exit_code;
}
