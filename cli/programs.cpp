#include "cli/programs.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <malloc.h>
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

constexpr const char* kFooter =
    "Exit codes: 0 done, 2 usage or settings, 3 data or checkpoint, 4 device, communication or\n"
    "Redis, 5 a peer rank was lost, 6 fine-tuning kept the weights of its parent, 74 the storage\n"
    "failed (a full or read-only disk, an I/O error), 75 pre-empted (a checkpoint was written; run\n"
    "the same command again).";

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
  const auto program = fs::read_symlink("/proc/self/exe", failure);  // by its name, which ps shows
  if (failure) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv(program.c_str(), argv);  // where this fails, training is slower and no worse
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
