#include "cli/programs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

struct Subcommand {
  std::string_view name;
  Program program;
  const char* text;  // nullptr: in the sources of its program
};
/// The full program has all that are not named here. `data pack`, `data pack-records` and `rank` go on in the full
/// program where their arguments need it.
constexpr Subcommand kSubcommands[] = {
    {"bundle", Program::light, nullptr},
    {"data", Program::light, nullptr},
    {"rank", Program::light, nullptr},
    {"baseline", Program::experiments, "Train and test what models are compared with"},
    {"experiment", Program::experiments, "Train and compare models on shares of the data, with tables and figures"},
    {"serve", Program::server, "Score for other programs, over HTTP on this machine"}};

std::string name_of(Program program) {
  if (program == Program::experiments) return "foretime-experiment";
  return program == Program::server ? "foretime-serve" : "foretime";
}

}  // namespace

Program program_of(std::string_view name) {
  const auto* found = std::ranges::find(kSubcommands, name, &Subcommand::name);
  return found == std::end(kSubcommands) ? Program::full : found->program;
}

std::string description_of(std::string_view name) {
  return std::ranges::find(kSubcommands, name, &Subcommand::name)->text;
}

void become(Program self, Program program, char** argv) {
  std::error_code failure;
  const fs::path here = fs::read_symlink("/proc/self/exe", failure).parent_path();
  const auto folders =
      self == Program::light ? std::vector<fs::path>{here / "core", here / FORETIME_LIBEXEC} : std::vector{here};
  // OpenMP reads this before main begins: see main.cpp.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  std::string tried;
  for (const auto& folder : folders) {
    const fs::path place = (folder / name_of(program)).lexically_normal();
    execv(place.c_str(), argv);
    tried += fmt::format("\n  {}: {}", place.string(), std::generic_category().message(errno));
  }
  throw Error(kInternal, fmt::format("{} does not start. Build it (cmake --build build/release), or install Foretime "
                                     "again (cmake --install build/release). Tried{}",
                                     name_of(program), tried));
}

void add_other_programs(CLI::App& app, Program self, char** argv) {
  for (const auto& [name, program, text] : kSubcommands)
    if (text != nullptr)
      app.add_subcommand(std::string(name), text)->prefix_command()->callback([self, program = program, argv] {
        become(self, program, argv);
      });
}

}  // namespace foretime::cli
