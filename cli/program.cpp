#include "cli/program.h"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include "base/error.h"

namespace foretime::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done, 2 usage or settings, 3 data or checkpoint, 4 device, communication or\n"
    "Redis, 5 a peer rank was lost, 6 fine-tuning kept the weights of its parent, 75 pre-empted (a\n"
    "checkpoint was written; run the same command again).";

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

}  // namespace

void prepare_to_compute(char** argv) {
  let_idle_threads_sleep(argv);
  keep_freed_memory();
}

int run_program(int argc, char** argv, const std::function<void(CLI::App&)>& add_commands) {
  try {
    CLI::App app("Foretime: learned cost models for machine-learning compilers", "foretime");
    app.set_version_flag("--version", FORETIME_VERSION);
    app.footer(kFooter);
    app.require_subcommand(1);
    add_commands(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? kSuccess : kUsage;
    }
    return kSuccess;
  } catch (const ReportedError& error) {
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "foretime: {}\n", error.what());
    return exit_code_of(error);
  }
}

}  // namespace foretime::cli
