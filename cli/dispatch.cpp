#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/data_command.h"
#include "cli/rank_command.h"
#include "comm/mpi/launched.h"

/// `foretime` as people start it: a small program without LibTorch and MPI. It runs some subcommands itself, in a few
/// MiB of memory, and becomes another program for the rest.
namespace {

using namespace foretime;
namespace fs = std::filesystem;

enum class Program {
  small,  // this one
  full,   // core/foretime, with LibTorch and MPI
  server  // core/foretime-serve
};
struct Subcommand {
  std::string_view name;
  Program program;
};
/// The program of each subcommand; the full one has all that are not named here. `data pack`, `data pack-records` and
/// `rank` go on in the full program where their arguments need it.
constexpr Subcommand kSubcommands[] = {
    {"bundle", Program::small}, {"data", Program::small}, {"rank", Program::small}, {"serve", Program::server}};

Program program_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kSubcommands), std::end(kSubcommands),
                                   [&](const Subcommand& subcommand) { return subcommand.name == name; });
  return found == std::end(kSubcommands) ? Program::full : found->program;
}

/// Replaces this process by another program. Throws Error where it cannot be started.
[[noreturn]] void become(Program program, char** argv) {
  const char* name = program == Program::server ? "foretime-serve" : "foretime";
  std::error_code failure;
  const auto folder = fs::read_symlink("/proc/self/exe", failure).parent_path();
  // OpenMP reads this before main begins: see main.cpp.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  std::string tried;
  for (const fs::path& place : {folder / "core" / name, folder / FORETIME_LIBEXEC / name}) {
    execv(place.c_str(), argv);
    tried += fmt::format("\n  {}: {}", place.lexically_normal().string(), std::generic_category().message(errno));
  }
  throw Error(kInternal, fmt::format("{} does not start; install it again (cmake --install). Tried{}",
                                     program == Program::server ? "the server" : "the full program", tried));
}

int run(int argc, char** argv) {
  const auto program = program_of(argc > 1 ? argv[1] : "");
  if (program != Program::small) become(program, argv);
  CLI::App app("Foretime: learned cost models for machine-learning compilers", "foretime");
  app.require_subcommand(1);
  cli::add_data_command(
      app,
      [&](const cli::PackArguments& arguments) {
        if (comm::launched_by_mpi() || !arguments.plans.empty()) become(Program::full, argv);
        cli::pack(arguments);
      },
      [&](const data::RecordPackRequest& request) {
        if (comm::launched_by_mpi()) become(Program::full, argv);
        cli::pack_records(request);
      });
  cli::add_bundle_command(app);
  cli::add_rank_command(app, [&](const cli::RankArguments&) { become(Program::full, argv); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  }
  return kSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "foretime: {}\n", error.what());
    return exit_code_of(error);
  }
}
