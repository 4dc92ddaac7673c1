/// How many programs a second one core turns from save_json text into syntax trees, and into groups with features.
///
///   tir_bench FILE.jsonl.gz MEMBER
///
/// The first figure is parsing and unfolding alone, from memory; the second includes gzip, JSON lines and node
/// features. The best of several passes over the file counts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/tir/tir_file.h"
#include "data/frontends/tir/tir_reader.h"

namespace {

using namespace foretime;
using namespace foretime::data;

constexpr int kPasses = 7;

double best_seconds(const std::function<void()>& pass) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kPasses; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pass();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

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
  if (texts.empty()) throw DataError(fmt::format("{}: no texts {}", path, member));
  size_t nodes = 0;
  const double parsing = best_seconds([&] {
    TirReader reader;
    ProgramNodes trees;
    for (const auto& text : texts) reader.read(text, "text", trees);
    nodes = trees.nodes();
  });
  const double whole = best_seconds([&] { read_tir_groups(path, member); });
  const auto programs = static_cast<double>(texts.size());
  fmt::print("{} programs, {:.0f} tree nodes and {:.1f} kB of text each\n", texts.size(),
             static_cast<double>(nodes) / programs, static_cast<double>(bytes) / programs / 1e3);
  fmt::print("text to trees    {:9.0f} programs/s  {:6.0f} MB/s\n", programs / parsing,
             static_cast<double>(bytes) / parsing / 1e6);
  fmt::print("file to groups   {:9.0f} programs/s\n", programs / whole);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: tir_bench FILE.jsonl.gz MEMBER\n", stderr);
    return 2;
  }
  try {
    run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tir_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
