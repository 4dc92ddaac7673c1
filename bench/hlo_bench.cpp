/// How fast one core turns HLO protobuf into groups, and into TpuGraphs' .npz files.
///
///   hlo_bench FILE.pb
///
/// Thread time of the best of several passes counts, so that other processes matter little. The second figure includes
/// compression.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

#include "data/dataset/hlo_convert.h"

namespace {

using namespace foretime::data;

constexpr int kPasses = 15;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double best_seconds(const std::function<void()>& pass) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kPasses; ++i) {
    const double start = thread_seconds();
    pass();
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

void run(const std::filesystem::path& path) {
  size_t modules = 0;
  int64_t nodes = 0;
  const double reading = best_seconds([&] {
    const HloFile file(path);
    const auto groups = groups_of(file);
    modules = groups.size();
    nodes = 0;
    for (const auto& module : groups) nodes += read_hlo_group(file, module).group.graphs.nodes();
  });
  const auto out = std::filesystem::temp_directory_path() / fmt::format("foretime_hlo_bench_{}", getpid());
  const double converting = best_seconds([&] { convert_hlo(path, out, {}, [](const HloConversion&) {}); });
  std::filesystem::remove_all(out);
  const double megabytes = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
  const auto print = [&](const char* what, double seconds) {
    fmt::print("{}  {:8.0f} modules/s  {:9.0f} nodes/s  {:6.1f} MB/s\n", what, static_cast<double>(modules) / seconds,
               static_cast<double>(nodes) / seconds, megabytes / seconds);
  };
  fmt::print("{} modules, {} nodes, {:.2f} MB\n", modules, nodes, megabytes);
  print("file to groups", reading);
  print("file to .npz  ", converting);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "hlo_bench FILE.pb\n");
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "hlo_bench: {}\n", error.what());
    return 3;
  }
  return 0;
}
