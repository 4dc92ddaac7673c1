/// How fast one core turns HLO protobuf into groups.
///
///   hlo_bench FILE.pb
///
/// Thread time of the best of several passes counts, so that other processes matter little.
#include <filesystem>

#include "bench/bench.h"
#include "data/frontends/hlo/hlo_groups.h"

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
    for (const auto& module : groups) nodes += read_hlo_group(file, module).graphs.nodes();
  });
  const double megabytes = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
  fmt::print("{} modules, {} nodes, {:.2f} MB\n", modules, nodes, megabytes);
  fmt::print("{:.0f} modules/s  {:.0f} nodes/s  {:.1f} MB/s\n", static_cast<double>(modules) / reading,
             static_cast<double>(nodes) / reading, megabytes / reading);
}

}  // namespace

int main(int argc, char** argv) {
  return foretime::bench::run(argc, argv, "FILE.pb", 1, 1, [&] { run(argv[1]); });
}
