#include "data/frontends/hlo/module_outline.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace foretime::data {
namespace {

/// Field numbers of hlo.proto.
enum ModuleField : uint32_t { kNameOfModule = 1, kComputations = 3 };
enum ComputationField : uint32_t { kComputationName = 1, kInstructions = 2, kComputationId = 5, kRootId = 6 };
constexpr uint32_t kInstructionId = 35;

int64_t read_id(const HloSource& source, std::string_view instruction) {
  int64_t id = 0;
  WireReader reader(source, instruction);
  for (WireField field; reader.next(field);) {
    if (field.is_varint(kInstructionId)) id = static_cast<int64_t>(field.value);
  }
  return id;
}

void add_computation(const HloSource& source, std::string_view bytes, int64_t most, ModuleOutline& module) {
  auto& computation = module.computations.emplace_back();
  computation.first = static_cast<int64_t>(module.instructions.size());
  WireReader reader(source, bytes);
  for (WireField field; reader.next(field);) {
    if (field.is_bytes(kComputationName)) computation.name = field.bytes;
    if (field.is_varint(kComputationId)) computation.id = static_cast<int64_t>(field.value);
    if (field.is_varint(kRootId)) computation.root_id = static_cast<int64_t>(field.value);
    if (!field.is_bytes(kInstructions)) continue;
    if (static_cast<int64_t>(module.instructions.size()) == most)
      source.fail(
          fmt::format("module {}: more than {} instructions, which is the limit", printable(module.name), most));
    module.instructions.push_back({field.bytes, read_id(source, field.bytes)});
  }
  computation.last = static_cast<int64_t>(module.instructions.size());
  if (computation.first == computation.last)
    source.fail(fmt::format("computation {} (id {}): no instructions, expected at least one",
                            printable(computation.name), computation.id));
}

/// Sorts positions by the ids of `items`, which must be distinct.
template <class Items>
std::vector<std::pair<int64_t, int64_t>> by_id(const HloSource& source, const Items& items, const char* what) {
  std::vector<std::pair<int64_t, int64_t>> sorted;
  sorted.reserve(items.size());
  for (const auto& item : items) sorted.emplace_back(item.id, static_cast<int64_t>(sorted.size()));
  std::sort(sorted.begin(), sorted.end());
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(), same);
  if (twice != sorted.end())
    source.fail(fmt::format("{} id {}: given to two of them, expected distinct ids", what, twice->first));
  return sorted;
}

int64_t find(const std::vector<std::pair<int64_t, int64_t>>& sorted, int64_t id) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), std::pair(id, int64_t{0}));
  return found != sorted.end() && found->first == id ? found->second : -1;
}

}  // namespace

int64_t ModuleOutline::find_instruction(int64_t id) const { return find(instructions_by_id, id); }
int64_t ModuleOutline::find_computation(int64_t id) const { return find(computations_by_id, id); }

ModuleOutline outline_module(const HloSource& source, std::span<const std::string_view> pieces,
                             const HloLimits& limits) {
  ModuleOutline module;
  const int64_t most = std::min<int64_t>(limits.nodes, std::numeric_limits<int32_t>::max());
  for (const auto piece : pieces) {
    WireReader reader(source, piece);
    for (WireField field; reader.next(field);) {
      if (field.is_bytes(kNameOfModule)) module.name = field.bytes;
      if (field.is_bytes(kComputations)) add_computation(source, field.bytes, most, module);
    }
  }
  if (module.computations.empty())
    source.fail(fmt::format("module {}: no computations, expected at least one", printable(module.name)));
  module.instructions_by_id = by_id(source, module.instructions, "instruction");
  module.computations_by_id = by_id(source, module.computations, "computation");
  for (auto& computation : module.computations) {
    computation.root = module.find_instruction(computation.root_id);
    if (computation.root < computation.first || computation.root >= computation.last)
      source.fail(fmt::format("computation {} (id {}): its root, instruction {}, is not among its instructions",
                              printable(computation.name), computation.id, computation.root_id));
  }
  return module;
}

}  // namespace foretime::data
