/// How fast one core turns HLO protobuf into groups, and into TpuGraphs' .npz files.
///
///   hlo_bench FILE.pb
///
/// Thread time of the best of several passes counts, so that other processes matter little. The second figure includes
/// compression.
#include <filesystem>

#include <unistd.h>

#include "bench/bench.h"
#include "data/dataset/hlo_convert.h"

namespace {

using namespace foretime;
using namespace foretime::data;

constexpr int kPasses = 15;

void run(const std::filesystem::path& path) {
  size_t modules = 0;
  int64_t nodes = 0;
  const double reading = bench::best_seconds(kPasses, bench::thread_seconds, [&] {
    const HloFile file(path);
    const auto groups = groups_of(file);
    modules = groups.size();
    nodes = 0;
    for (const auto& module : groups) nodes += read_hlo_group(file, module).group.graphs.nodes();
  });
  const auto out = std::filesystem::temp_directory_path() / fmt::format("foretime_hlo_bench_{}", getpid());
  const double converting = bench::best_seconds(kPasses, bench::thread_seconds,
                                                [&] { convert_hlo(path, out, {}, [](const HloConversion&) {}); });
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
  return foretime::bench::run(argc, argv, "FILE.pb", 1, 1, [&] { run(argv[1]); });
}
