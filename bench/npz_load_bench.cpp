/// How long Foretime takes to read .npz groups, beside numpy reading every entry of the same files in the same run.
///
///   npz_load_bench FILE.npz...
///
/// Each side reads each file several times; the best time counts. numpy runs in /usr/bin/python3 and times itself, so
/// that starting Python is not held against it. Foretime's time includes all checks and the coding of layouts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "data/dataset/group_files.h"
#include "data/files/npz_reader.h"

namespace {

using foretime::data::CandidateKind;

constexpr int kRepeats = 5;
constexpr const char* kNumpyProgram =
    "import sys, time, numpy\n"
    "best = float(\"inf\")\n"
    "for _ in range(int(sys.argv[2])):\n"
    "    start = time.perf_counter()\n"
    "    with numpy.load(sys.argv[1]) as archive:\n"
    "        arrays = [archive[name] for name in archive.files]\n"
    "    best = min(best, time.perf_counter() - start)\n"
    "print(best)\n";

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Seconds, or a negative number where there is no numpy.
double numpy_seconds(const std::string& file) {
  const std::string command =
      fmt::format("/usr/bin/python3 -c {} {} {}", quoted(kNumpyProgram), quoted(file), kRepeats);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return -1.0;
  double seconds = -1.0;
  if (std::fscanf(pipe, "%lf", &seconds) != 1) seconds = -1.0;
  return pclose(pipe) == 0 ? seconds : -1.0;
}

CandidateKind kind_of(const std::string& file) {
  const foretime::data::NpzReader reader(file);
  if (reader.has("node_config_feat")) return CandidateKind::layout;
  return reader.has("config_feat") ? CandidateKind::tile : CandidateKind::program;
}

double foretime_seconds(const std::string& file) {
  const auto headers = foretime::data::list_groups({file}, ".", kind_of(file));
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    const auto group = foretime::data::load_group(headers.at(0));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (group.candidates == 0) throw foretime::DataError(file + ": no candidates");
  }
  return best;
}

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: npz_load_bench FILE.npz...\n");
    return 2;
  }
  try {
    double ours = 0.0, theirs = 0.0;
    for (const std::string& file : std::vector<std::string>(argv + 1, argv + argc)) {
      const double here = foretime_seconds(file), numpy = numpy_seconds(file);
      fmt::print("{}: foretime {:.1f} ms, peak {:.0f} MiB so far; numpy {}\n", file, here * 1e3, peak_mebibytes(),
                 numpy < 0 ? "not found" : fmt::format("{:.1f} ms, ratio {:.2f}", numpy * 1e3, numpy / here));
      if (numpy < 0) continue;
      ours += here;
      theirs += numpy;
    }
    if (ours > 0) fmt::print("all: numpy / foretime = {:.2f}\n", theirs / ours);
  } catch (const std::exception& error) {
    fmt::print(stderr, "npz_load_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
