#include "data/files/program_oddities.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

constexpr double kLongestMedian = 1000;  // seconds
constexpr double kOutlier = 1e6;         // times the median
constexpr int64_t kNamed = 10;           // names in one message

const ShapeRule kAnyLength{{kAnySize}, "(any,)"};

/// Counts the uses of one name in a file's table of node types.
struct TypeUse {
  std::string name;
  bool known = false;
  int64_t nodes = 0, loops = 0;  // loops: nodes that have a loop kind
};

std::vector<TypeUse> type_uses(const NpzReader& file) {
  std::vector<TypeUse> uses;
  for (const auto& name : file.read_text("type_names", kAnyLength))
    uses.push_back({.name = name, .known = name == "Unknown" || tir_type_id(name) != tir_type_id("Unknown")});
  const auto types = file.read<uint8_t>("node_type", kAnyLength);
  const auto kinds = file.read<int8_t>("loop_kind", {{std::ssize(types)}, "(nodes,)"});
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] >= uses.size()) continue;  // the reader of the trees says what is wrong
    ++uses[types[i]].nodes;
    uses[types[i]].loops += kinds[i] >= 0;
  }
  return uses;
}

/// The known name that was probably meant; empty where none is near.
std::string nearest_type(const TypeUse& use) {
  if (use.loops > 0) return "For";
  std::vector<std::string> names;
  for (const auto name : tir_type_names()) names.emplace_back(name);
  const auto same =
      std::ranges::find_if(names, [&](const auto& name) { return lower_case(name) == lower_case(use.name); });
  return same != names.end() ? *same : nearest_name(use.name, names);
}

std::string described(const TypeUse& use, int64_t nodes) {
  const auto nearest = nearest_type(use);
  return fmt::format("{} ({:.3g} % of the nodes{})", use.name, 100 * static_cast<double>(use.nodes) / nodes,
                     nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
}

}  // namespace

std::vector<std::string> runtime_oddities(std::span<const double> runtimes) {
  std::vector<std::string> lines;
  std::vector<double> ran(runtimes.begin(), runtimes.end());
  std::erase_if(ran, [](double time) { return !std::isfinite(time); });
  if (ran.empty()) return lines;
  std::ranges::sort(ran);
  const double median = ran[ran.size() / 2], longest = ran.back();
  if (ran.size() > 1 && ran.front() == longest)
    lines.push_back(
        fmt::format("all {} run times are {:.6g}: nothing can be learned from their order", ran.size(), longest));
  if (median > kLongestMedian)
    lines.push_back(fmt::format(
        "run times of {:.6g} s in the middle: expected seconds; are they nanoseconds (divide by 1e9) or microseconds?",
        median));
  if (median > 0 && longest > kOutlier * median)
    lines.push_back(
        fmt::format("the longest run time, {:.6g} s, is {:.2g} times the one in the middle, {:.6g} s: "
                    "does it mark a failure? leave such programs out",
                    longest, longest / median, median));
  return lines;
}

std::vector<std::string> program_oddities(const NpzReader& file) {
  std::vector<std::string> lines;
  const auto uses = type_uses(file);
  int64_t nodes = 0;
  for (const auto& use : uses) nodes += use.nodes;
  std::vector<std::string> unknown;
  for (const auto& use : uses)
    if (!use.known && use.nodes > 0) unknown.push_back(described(use, nodes));
  if (!unknown.empty()) {
    const auto more = std::ssize(unknown) - kNamed;
    if (more > 0) unknown.resize(kNamed);
    lines.push_back(fmt::format("node types that are not known, whose nodes become Unknown: {}{}",
                                fmt::join(unknown, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  for (auto& line : runtime_oddities(file.read<double>("runtime", kAnyLength))) lines.push_back(std::move(line));
  const auto ids = file.read_text("id", kAnyLength);
  const std::set<std::string> distinct(ids.begin(), ids.end());
  if (distinct.size() < ids.size())
    lines.push_back(fmt::format("{} programs have {} different ids: rankings do not show which of them is meant",
                                ids.size(), distinct.size()));
  return lines;
}

void refuse_unknown_loops(const NpzReader& file) {
  std::vector<std::string> loops;
  int64_t nodes = 0;
  const auto uses = type_uses(file);
  for (const auto& use : uses) nodes += use.nodes;
  for (const auto& use : uses) {
    if (use.loops == 0) continue;
    if (use.known) return;
    loops.push_back(described(use, nodes));
  }
  if (!loops.empty())
    throw DataError("{}: all loops have types that are not known: {}; docs/reference/file-formats.md lists the names",
                    file.origin("type_names"), fmt::join(loops, ", "));
}

}  // namespace foretime::data
