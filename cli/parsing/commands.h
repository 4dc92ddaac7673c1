#pragma once

namespace CLI {
class App;
}

/// Declares one function for each subcommand, each in a separate file. A function adds its subcommand to `app` with a
/// callback that does the work; failures are exceptions, which main turns into messages and exit codes. `exit_code` is
/// for outcomes that are not failures (75: pre-empted; 7: jobs failed).
namespace foretime::cli {

void add_bundle_command(CLI::App& app);
void add_pretrained_command(CLI::App& app);
void add_target_command(CLI::App& app);
void add_experiment_command(CLI::App& app, int& exit_code);
/// Adds the command that completes the subcommands of `app`.
void add_completion_command(CLI::App& app);
void add_config_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_history_command(CLI::App& app);

// Commands of the job queue.
void add_submit_command(CLI::App& app);
void add_agent_command(CLI::App& app, int& exit_code);
void add_status_command(CLI::App& app);
void add_leaderboard_command(CLI::App& app);
void add_log_command(CLI::App& app);
void add_queue_command(CLI::App& app);
void add_clean_command(CLI::App& app);
/// Adds cancel, pause, resume, retry and priority.
void add_control_commands(CLI::App& app);

}  // namespace foretime::cli
