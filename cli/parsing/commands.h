#pragma once

namespace CLI {
class App;
}

/// One function a subcommand, each in a file of its own. A subcommand adds itself to `app` and sets a callback that
/// does the work; failures leave as exceptions, which main turns into messages and exit codes. `exit_code` is for the
/// outcomes that are not failures (75: pre-empted; 7: jobs failed).
namespace foretime::cli {

void add_train_command(CLI::App& app, int& exit_code);
void add_evaluate_command(CLI::App& app);
void add_rank_command(CLI::App& app);
void add_select_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_bundle_command(CLI::App& app);
void add_pretrained_command(CLI::App& app);
void add_target_command(CLI::App& app);
void add_baseline_command(CLI::App& app);
void add_experiment_command(CLI::App& app, int& exit_code);
/// Completes the subcommands that `app` has when it runs.
void add_completion_command(CLI::App& app);
void add_config_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_finetune_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app);
void add_history_command(CLI::App& app);

// Of the job queue.
void add_submit_command(CLI::App& app);
void add_agent_command(CLI::App& app, int& exit_code);
void add_status_command(CLI::App& app);
void add_leaderboard_command(CLI::App& app);
void add_log_command(CLI::App& app);
void add_queue_command(CLI::App& app);
void add_clean_command(CLI::App& app);
/// cancel, pause, resume, retry, priority
void add_control_commands(CLI::App& app);

}  // namespace foretime::cli
