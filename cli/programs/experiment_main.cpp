#include "base/error.h"
#include "cli/light/programs.h"
#include "cli/parsing/commands.h"
#include "jobs/progress/channel.h"

int main(int argc, char** argv) {
  using namespace foretime;
  jobs::die_with_parent_if_job();
  cli::prepare_to_compute(argv);
  int exit_code = kSuccess;
  const int failed = cli::run_program(argc, argv, [&](CLI::App& app) { cli::add_experiment_command(app, exit_code); });
  return failed != kSuccess ? failed : exit_code;
}
