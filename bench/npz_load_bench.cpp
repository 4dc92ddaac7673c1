/// How long Foretime takes to read .npz groups, beside numpy reading every entry of the same files in the same run.
///
///   npz_load_bench FILE.npz...
///
/// Each side reads each file several times; the best time counts. numpy runs in /usr/bin/python3 and times itself, so
/// that starting Python is not held against it. Foretime's time includes all checks and the coding of layouts.
#include <vector>

#include "base/error.h"
#include "bench/bench.h"
#include "bench/npz_kind.h"
#include "data/dataset/group_files.h"

namespace {

using foretime::bench::best_seconds;
using foretime::bench::wall_seconds;

constexpr int kRepeats = 5;
double foretime_seconds(const std::string& file) {
  const auto headers = foretime::data::list_groups({file}, ".", foretime::bench::kind_of(file));
  return best_seconds(kRepeats, wall_seconds, [&] {
    if (foretime::data::load_group(headers.at(0)).candidates == 0) throw foretime::DataError("{}: no candidates", file);
  });
}

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace

int main(int argc, char** argv) {
  return foretime::bench::run(argc, argv, "FILE.npz...", 1, argc, [&] {
    double ours = 0.0, theirs = 0.0;
    for (const std::string& file : std::vector<std::string>(argv + 1, argv + argc)) {
      const double here = foretime_seconds(file), numpy = foretime::bench::numpy_seconds(file, kRepeats);
      fmt::print("{}: foretime {:.1f} ms, peak {:.0f} MiB so far; numpy {}\n", file, here * 1e3, peak_mebibytes(),
                 numpy < 0 ? "not found" : fmt::format("{:.1f} ms, ratio {:.2f}", numpy * 1e3, numpy / here));
      if (numpy < 0) continue;
      ours += here;
      theirs += numpy;
    }
    if (ours > 0) fmt::print("all: numpy / foretime = {:.2f}\n", theirs / ours);
  });
}
