#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/bundle_command.h"
#include "cli/data_command.h"
#include "cli/rank_command.h"
#include "comm/mpi/launched.h"

/// What people start. It knows files and no LibTorch: `foretime data`, and `foretime rank` with a bundle, run here, in
/// a few MiB; everything else in the full program, or the server, which take this process's place.
namespace {

using namespace foretime;
namespace fs = std::filesystem;

/// Packing shared among ranks, or with the plans of models, is the full program's. Ranking is, too, unless the model is
/// a bundle, which its arguments tell once they are parsed.
bool runs_here(const std::vector<std::string_view>& arguments) {
  if (arguments.size() < 2) return false;
  if (arguments[1] == "rank" || arguments[1] == "bundle") return true;
  if (arguments[1] != "data") return false;
  const bool packs = arguments.size() > 2 && (arguments[2] == "pack" || arguments[2] == "pack-records");
  const bool plans = std::any_of(arguments.begin(), arguments.end(),
                                 [](std::string_view argument) { return argument.starts_with("--plans"); });
  return !packs || (!plans && !comm::launched_by_mpi());
}

/// Ranking by checkpoints.
struct NeedsFullProgram {};

/// `name`: foretime, the full program, or foretime-serve.
int start_program(const char* name, char** argv) {
  std::error_code failure;
  const auto folder = fs::read_symlink("/proc/self/exe", failure).parent_path();
  // OpenMP reads this before main begins: see main.cpp.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  std::string tried;
  for (const fs::path& place : {folder / "core" / name, folder / FORETIME_LIBEXEC / name}) {
    execv(place.c_str(), argv);
    tried += fmt::format("\n  {}: {}", place.lexically_normal().string(), std::generic_category().message(errno));
  }
  fmt::print(stderr, "foretime: {} does not start; install it again (cmake --install). Tried{}\n",
             std::string_view(name) == "foretime" ? "the full program" : "the server", tried);
  return kInternal;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "serve") return start_program("foretime-serve", argv);
  if (!runs_here({argv, argv + argc})) return start_program("foretime", argv);
  CLI::App app("Foretime: learned cost models for machine-learning compilers", "foretime");
  app.require_subcommand(1);
  cli::add_data_command(app, cli::pack_alone, cli::pack_records_alone);
  cli::add_bundle_command(app);
  cli::add_rank_command(app, [](const cli::RankArguments&) { throw NeedsFullProgram(); });
  try {
    app.parse(argc, argv);
  } catch (const NeedsFullProgram&) {
    return start_program("foretime", argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "foretime: {}\n", error.what());
    return exit_code_of(error);
  }
  return kSuccess;
}
