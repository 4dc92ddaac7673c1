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

#include "cli/data_command.h"
#include "comm/launched.h"
#include "configs/load.h"
#include "coordinator/exit_code.h"
#include "data/error.h"

/// What people start. It knows files and no LibTorch: `foretime data` runs here, in a few MiB; everything else in the
/// full program, which takes this process's place.
namespace {

using namespace foretime;
namespace fs = std::filesystem;

/// Packing shared among ranks, or with the plans of models, is the full program's.
bool runs_here(const std::vector<std::string_view>& arguments) {
  if (arguments.size() < 2 || arguments[1] != "data") return false;
  const bool packs = arguments.size() > 2 && (arguments[2] == "pack" || arguments[2] == "pack-records");
  const bool plans = std::any_of(arguments.begin(), arguments.end(),
                                 [](std::string_view argument) { return argument.starts_with("--plans"); });
  return !packs || (!plans && !comm::launched_by_mpi());
}

int start_full_program(char** argv) {
  std::error_code failure;
  const auto folder = fs::read_symlink("/proc/self/exe", failure).parent_path();
  // OpenMP reads this before main begins: see main.cpp.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  std::string tried;
  for (const fs::path& place : {folder / "core" / "foretime", folder / FORETIME_LIBEXEC / "foretime"}) {
    execv(place.c_str(), argv);
    tried += fmt::format("\n  {}: {}", place.lexically_normal().string(), std::generic_category().message(errno));
  }
  fmt::print(stderr, "foretime: the full program does not start; install it again (cmake --install). Tried{}\n", tried);
  return coordinator::kInternal;
}

}  // namespace

int main(int argc, char** argv) {
  if (!runs_here({argv, argv + argc})) return start_full_program(argv);
  CLI::App app("Foretime: learned cost models for machine-learning compilers", "foretime");
  app.require_subcommand(1);
  cli::add_data_command(app, cli::pack_alone, cli::pack_records_alone);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? coordinator::kSuccess : coordinator::kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "foretime: {}\n", error.what());
    if (dynamic_cast<const configs::SettingsError*>(&error) != nullptr) return coordinator::kUsage;
    return dynamic_cast<const data::DataError*>(&error) != nullptr ? coordinator::kData : coordinator::kInternal;
  }
  return coordinator::kSuccess;
}
