/// How many programs a second one core turns from save_json text into syntax trees, and into groups with features.
///
///   tir_bench FILE.jsonl.gz MEMBER
///
/// The first figure is parsing and unfolding alone, from memory; the second includes gzip, JSON lines and node
/// features. The best of several passes over the file counts.
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/bench.h"
#include "data/frontends/tir/tir_file.h"
#include "data/frontends/tir/tir_reader.h"

namespace {

using namespace foretime;
using namespace foretime::data;

constexpr int kPasses = 7;

void run(const std::string& path, const std::string& member) {
  std::vector<std::string> texts;
  size_t bytes = 0;
  TirFile file(path);
  for (TirRecord record; file.next(record);) {
    for (auto& [name, text] : record.texts) {
      if (name != member) continue;
      bytes += text.size();
      texts.push_back(std::move(text));
    }
  }
  if (texts.empty()) throw DataError("{}: no texts {}", path, member);
  size_t nodes = 0;
  const double parsing = bench::best_seconds(kPasses, bench::wall_seconds, [&] {
    TirReader reader;
    ProgramNodes trees;
    for (const auto& text : texts) reader.read(text, "text", trees);
    nodes = trees.nodes();
  });
  const double whole = bench::best_seconds(kPasses, bench::wall_seconds, [&] { read_tir_groups({path}, member); });
  const auto programs = static_cast<double>(texts.size());
  fmt::print("{} programs, {:.0f} tree nodes and {:.1f} kB of text each\n", texts.size(),
             static_cast<double>(nodes) / programs, static_cast<double>(bytes) / programs / 1e3);
  fmt::print("text to trees    {:9.0f} programs/s  {:6.0f} MB/s\n", programs / parsing,
             static_cast<double>(bytes) / parsing / 1e6);
  fmt::print("file to groups   {:9.0f} programs/s\n", programs / whole);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run(argc, argv, "FILE.jsonl.gz MEMBER", 2, 2, [&] { run(argv[1], argv[2]); });
}
