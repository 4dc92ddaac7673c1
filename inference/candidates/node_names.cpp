#include "inference/candidates/node_names.h"

#include <fmt/format.h>

#include "data/frontends/hlo/module_graph.h"

namespace foretime::inference {
namespace {

constexpr uint32_t kInstructionName = 1;  // hlo.proto

}  // namespace

NodeNames::NodeNames(const data::HloFile& file) {
  const auto& source = file.source();
  if (file.modules().size() != 1)
    source.fail(fmt::format("{} modules, expected one whose candidates are ranked", file.modules().size()));
  const auto tuning = file.outline(file.modules().front());
  const auto module = data::outline_module(source, tuning.module, {});
  names_.reserve(module.instructions.size());
  for (const auto& instruction : module.instructions) {
    auto& name = names_.emplace_back();
    data::WireReader reader(source, instruction.bytes);
    for (data::WireField field; reader.next(field);) {
      if (field.is_bytes(kInstructionName)) name = field.bytes;
    }
  }
  for (size_t node = 0; node < names_.size(); ++node) {
    if (names_[node].empty()) continue;
    const auto [place, fresh] = nodes_.try_emplace(names_[node], static_cast<int32_t>(node));
    if (!fresh) place->second = kAmbiguous;
  }
}

int32_t NodeNames::find(std::string_view name) const {
  if (name.starts_with('%')) name.remove_prefix(1);
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? kNone : found->second;
}

}  // namespace foretime::inference
