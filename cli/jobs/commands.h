#pragma once

namespace CLI {
class App;
}

/// The subcommands that talk to the job queue.
namespace foretime::cli {

void add_submit_command(CLI::App& app);
void add_agent_command(CLI::App& app);
void add_status_command(CLI::App& app);
void add_leaderboard_command(CLI::App& app);
void add_log_command(CLI::App& app);
void add_queue_command(CLI::App& app);
/// cancel, pause, resume, retry, priority
void add_control_commands(CLI::App& app);

}  // namespace foretime::cli
