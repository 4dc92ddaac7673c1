#include "cli/light/programs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/message.h"
#include "base/stop_signals.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/light/address_space.h"
#include "comm/mpi/launched.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

struct Subcommand {
  std::string_view name;
  Program program;
  const char* text;
};
/// Lists the subcommands of other programs, of which this one only has the names.
constexpr Subcommand kOtherSubcommands[] = {
    {"experiment", Program::experiments, "Train and compare models on shares of the data, with tables"},
    {"serve", Program::server, "Score for other programs, over HTTP on this machine"}};

std::string name_of(Program program) {
  if (program == Program::experiments) return "foretime-experiment";
  if (program == Program::board) return "foretime-board";
  return program == Program::server ? "foretime-serve" : "foretime";
}

constexpr const char* kFooter =
    "Exit codes: 0 done, 2 usage or settings, 3 data or checkpoint, 4 device, communication or\n"
    "Redis, 5 a peer rank was lost, 6 fine-tuning kept the weights of its parent, 7 jobs failed\n"
    "(agent --until-empty), 8 out of memory, 74 the storage failed (a full or read-only disk, an\n"
    "I/O error, a run directory that has gone), 75 pre-empted (a checkpoint was written; run the\n"
    "same command again), 141 nobody reads the output any more (a pipe to head, say).";

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
  const auto program = fs::read_symlink("/proc/self/exe", failure);  // path of the file, whose name ps shows
  if (failure) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv(program.c_str(), argv);  // a failed exec makes training slower but not worse
}

/// Maps names of commands in other programs to Foretime's.
constexpr std::pair<const char*, const char*> kOtherCommands[] = {
    {"fit", "train"},         {"run", "train"},       {"eval", "evaluate"},      {"test", "evaluate"},
    {"predict", "rank"},      {"score", "rank"},      {"sweep", "submit"},       {"worker", "agent"},
    {"ps", "status"},         {"jobs", "status"},     {"kill", "cancel"},        {"stop", "cancel"},
    {"logs", "log"},          {"settings", "config"}, {"pack", "data pack"},     {"check", "doctor"},
    {"version", "--version"}, {"tune", "finetune"},   {"results", "leaderboard"}};

/// The command that arguments have reached.
const CLI::App& reached(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : reached(*parsed.front());
}

/// Returns a message about an argument that a command does not know, with the nearest one that it knows.
std::string unexpected_text(const CLI::App& app, const std::string& argument) {
  const auto& command = reached(app);
  std::vector<std::string> names;
  const bool option = argument.starts_with("-");
  const auto word = argument.substr(0, argument.find('='));
  if (option) {
    for (const auto* each : command.get_options())
      for (const auto& name : each->get_lnames()) names.push_back("--" + name);
  } else {
    for (const auto* each : command.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(each->get_name());
  }
  std::string path = command.get_name();
  for (const auto* up = command.get_parent(); up != nullptr; up = up->get_parent()) path = up->get_name() + " " + path;
  const auto* other =
      std::ranges::find(kOtherCommands, word, [](const auto& pair) { return std::string_view(pair.first); });
  const bool at_top = command.get_parent() == nullptr;
  auto nearest = at_top && other != std::end(kOtherCommands) ? std::string(other->second) : nearest_name(word, names);
  const auto kind = option ? "an option" : names.empty() ? "an argument" : "a command";
  const auto help = fmt::format("{} --help lists {}", path, option || names.empty() ? "what it takes" : "its commands");
  return fmt::format("{}: found {}, which is not {} of {}{}{}", path, argument, kind, path,
                     nearest.empty() ? "; " : "; did you mean ", nearest.empty() ? help : nearest + "?");
}

/// Returns "rank N: " for one of several ranks, each of which prints its own errors.
std::string rank_prefix() { return comm::launched_by_mpi() ? fmt::format("rank {}: ", comm::launched_rank()) : ""; }

void require_address_space() {
  const uint64_t least = least_address_space(kFullProgramBytes, environ), limit = address_space_limit();
  if (limit >= least) return;
  throw Error(kOutOfMemory,
              fmt::format("out of memory: a process may have {} KiB of address space (ulimit -v), "
                          "expected at least {}: LibTorch does not fit, with 128 MiB for each thread of OpenBLAS; "
                          "raise the limit (ulimit -v unlimited), set OMP_NUM_THREADS=1, or ask for a batch job",
                          limit >> 10, least >> 10));
}

}  // namespace

void exec_named_program(Program self, char** argv) {
  for (const auto& [name, program, text] : kOtherSubcommands)
    if (argv[1] != nullptr && name == argv[1]) exec_program(self, program, argv);
}

std::string description_of(std::string_view name) {
  return std::ranges::find(kOtherSubcommands, name, &Subcommand::name)->text;
}

void exec_program(Program self, Program program, char** argv) {
  if (program == Program::full || program == Program::experiments) require_address_space();
  std::error_code failure;
  const fs::path here = fs::read_symlink("/proc/self/exe", failure).parent_path();
  const auto folders =
      self == Program::light ? std::vector<fs::path>{here / "core", here / FORETIME_LIBEXEC} : std::vector{here};
  // OpenMP reads this before main begins: see main.cpp.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  std::string tried;
  bool there = false;
  for (const auto& folder : folders) {
    const fs::path place = (folder / name_of(program)).lexically_normal();
    execv(place.c_str(), argv);
    there |= errno != ENOENT;
    tried += fmt::format("\n  {}: {}", place.string(), std::generic_category().message(errno));
  }
  if (program == Program::board && !there)
    throw Error(
        kUsage,
        "this build has no board and no reports: the libraries of their pages were missing. In the source folder, "
        "tools/install-deps.sh --board installs them; then build again (cmake --preset release && cmake --build "
        "--preset release). Everything that it shows is also in foretime status, leaderboard, log and history");
  throw Error(kInternal, fmt::format("{} does not start. Build it (cmake --build build/release), "
                                     "or install Foretime again (cmake --install build/release). Tried{}",
                                     name_of(program), tried));
}

void add_other_programs(CLI::App& app, Program self, char** argv) {
  for (const auto& [name, program, text] : kOtherSubcommands)
    app.add_subcommand(std::string(name), text)->prefix_command()->callback([self, program = program, argv] {
      exec_program(self, program, argv);
    });
}

void prepare_to_compute(char** argv) {
  let_idle_threads_sleep(argv);
  keep_freed_memory();
}

int run_program(int argc, char** argv, const std::function<void(CLI::App&)>& add_commands,
                const std::function<std::string()>& version) {
  ignore_write_signals();
  // Otherwise the next file that is opened would become standard output.
  if (::fcntl(STDOUT_FILENO, F_GETFD) < 0 && std::freopen("/dev/null", "w", stdout) == nullptr) return kInternal;
  try {
    CLI::App app("Foretime: learned cost models for machine-learning compilers", "foretime");
    app.set_version_flag("--version", version, "Print version, commit, and what this was built against");
    app.footer(kFooter);
    app.require_subcommand(1);
    add_commands(app);
    try {
      app.parse(argc, argv);
      flush_output();
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {  // help, or the version
        if (error.get_name() == "CallForHelp") fmt::print("{}", folded(app.help(), output_width()));
        else app.exit(error);
        flush_output();
        return kSuccess;
      }
      // A word that is no command is both an argument too much and a command too few.
      const auto extra = app.remaining(/*recurse=*/true);
      if (extra.empty()) {
        app.exit(error);
        return kUsage;
      }
      print_message("foretime: {}{}\n", rank_prefix(), unexpected_text(app, extra.front()));
      return kUsage;
    }
    return kSuccess;
  } catch (const ReportedError& error) {
    return error.exit_code();
  } catch (const std::exception& error) {
    if (is_broken_pipe(error)) return 128 + SIGPIPE;
    print_message("foretime: {}{}\n", rank_prefix(), text_of_error(error));
    return exit_code_of(error);
  }
}

}  // namespace foretime::cli
