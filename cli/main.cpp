#include <exception>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <malloc.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/jobs/commands.h"
#include "comm/agree.h"
#include "jobs/progress/channel.h"
#include "server/serve_command.h"

namespace {

/// glibc gives large blocks back to the kernel at each free and faults them in again at each allocation; tensors are
/// such blocks.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

/// OpenMP's idle threads spin by default, and take the cores from the loader's thread, from MPI's and from other ranks:
/// short steps ran up to six times slower. OpenMP reads its environment before main begins, so the program starts
/// itself again, once.
void let_idle_threads_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);  // by its name, which ps shows
  if (failure) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv(program.c_str(), argv);  // where this fails, training is slower and no worse
}

/// The server is a program of its own beside this one.
void become_server(char** argv) {
  const auto server = std::filesystem::read_symlink("/proc/self/exe").replace_filename("foretime-serve");
  execv(server.c_str(), argv);
  throw std::runtime_error(
      fmt::format("{}: does not start: {}", server.string(), std::generic_category().message(errno)));
}

constexpr const char* kFooter =
    "Exit codes: 0 done, 2 usage or settings, 3 data or checkpoint, 4 device, communication or\n"
    "Redis, 5 a peer rank was lost, 6 fine-tuning kept the weights of its parent, 75 pre-empted (a\n"
    "checkpoint was written; run the same command again).";

}  // namespace

int main(int argc, char** argv) {
  using namespace foretime;
  jobs::die_with_parent_if_job();
  let_idle_threads_sleep(argv);
  keep_freed_memory();
  CLI::App app("Foretime: learned cost models for machine-learning compilers", "foretime");
  app.set_version_flag("--version", FORETIME_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  int exit_code = kSuccess;
  cli::add_train_command(app, exit_code);
  cli::add_evaluate_command(app);
  cli::add_rank_command(app);
  server::add_serve_command(app, [argv](const server::ServeArguments&) { become_server(argv); });
  cli::add_data_command(app);
  cli::add_baseline_command(app);
  cli::add_experiment_command(app, exit_code);
  cli::add_bundle_command(app);
  cli::add_config_command(app);
  cli::add_export_command(app);
  cli::add_finetune_command(app, exit_code);
  cli::add_doctor_command(app);
  cli::add_plan_command(app);
  cli::add_submit_command(app);
  cli::add_agent_command(app);
  cli::add_status_command(app);
  cli::add_leaderboard_command(app);
  cli::add_log_command(app);
  cli::add_queue_command(app);
  cli::add_control_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  } catch (const comm::RemoteError& error) {
    return error.exit_code();  // said already, by with_communicator
  } catch (const std::exception& error) {
    fmt::print(stderr, "foretime: {}\n", error.what());
    return exit_code_of(error);
  }
  return exit_code;
}
