#include "cli/command_line/commands.h"

#include <CLI/CLI.hpp>

#include "cli/parsing/commands.h"

namespace foretime::cli {

void add_commands(CLI::App& app, const Implementations& implementations, int& exit_code) {
  add_train_command(app, implementations.train);
  add_evaluate_command(app, implementations.evaluate);
  add_rank_command(app, implementations.rank_checkpoints);
  add_data_command(app, implementations.pack, implementations.pack_records);
  add_bundle_command(app);
  add_pretrained_command(app);
  add_target_command(app);
  add_config_command(app);
  add_export_command(app, implementations.export_model);
  add_finetune_command(app, implementations.finetune);
  add_doctor_command(app, implementations.examine_machine);
  add_plan_command(app);
  add_submit_command(app);
  add_agent_command(app, exit_code);
  add_status_command(app);
  add_leaderboard_command(app);
  add_log_command(app);
  add_history_command(app);
  add_board_command(app, implementations.board);
  add_report_command(app, implementations.report);
  add_queue_command(app);
  add_clean_command(app);
  add_control_commands(app);
  add_completion_command(app);
}

}  // namespace foretime::cli
