#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "data/files/npz_reader.h"
#include "data/graphs/program_nodes.h"
#include "data/graphs/schema.h"

/// Trees to compare with, and what comparing means: every member.
namespace foretime::testing {

/// What differs first between two trees, "" where nothing does.
inline std::string difference(const data::ProgramNodes& a, const data::ProgramNodes& b) {
  if (a.graph_ptr != b.graph_ptr) return "graph_ptr";
  if (a.type != b.type) return "type";
  if (a.parent != b.parent) return "parent";
  if (a.extent != b.extent) return "extent";
  if (a.loop_kind != b.loop_kind) return "loop_kind";
  if (a.variable != b.variable) return "variable";
  if (a.buffer != b.buffer) return "buffer";
  if (a.buffer_elements != b.buffer_elements) return "buffer_elements";
  for (size_t i = 0; i < a.nodes(); ++i) {
    const bool both_nan = std::isnan(a.value[i]) && std::isnan(b.value[i]);
    if (!both_nan && a.value[i] != b.value[i]) return "value";
    if (a.type[i] == data::tir_type_id("Call") && a.call_op[i] != b.call_op[i]) return "call_op";
  }
  return "";
}

/// The trees of an .npz file (C1.npz), each by itself, member by member as the file has them.
class NpzTrees {
 public:
  explicit NpzTrees(const std::filesystem::path& path) {
    const data::NpzReader file(path);
    const data::ShapeRule any{{data::kAnySize}, "(any,)"};
    all_.graph_ptr = file.read<int64_t>("graph_ptr", any);
    ids_ = file.read_text("id", any);
    const auto types = file.read_text("type_names", any), ops = file.read_text("call_op_names", any);
    for (const uint8_t type : file.read<uint8_t>("node_type", any))
      all_.type.push_back(data::tir_type_id(types.at(type)));
    for (const uint8_t op : file.read<uint8_t>("call_op", any))
      all_.call_op.push_back(static_cast<uint8_t>(data::call_op_index(ops.at(op))));
    all_.parent = file.read<int32_t>("parent", any);
    all_.extent = file.read<int64_t>("extent", any);
    all_.loop_kind = file.read<int8_t>("loop_kind", any);
    all_.value = file.read<double>("value", any);
    all_.variable = file.read<int32_t>("variable", any);
    all_.buffer = file.read<int32_t>("buffer", any);
    all_.buffer_elements = file.read<int64_t>("buffer_elements", any);
  }

  int64_t find(const std::string& id) const {
    for (size_t g = 0; g < ids_.size(); ++g) {
      if (ids_[g] == id) return static_cast<int64_t>(g);
    }
    return -1;
  }

  data::ProgramNodes tree(int64_t graph) const {
    const auto first = all_.graph_ptr.at(static_cast<size_t>(graph)),
               last = all_.graph_ptr.at(static_cast<size_t>(graph) + 1);
    const auto part = [&](const auto& values) {
      return std::decay_t<decltype(values)>(values.begin() + first, values.begin() + last);
    };
    return {{0, last - first}, part(all_.type),     part(all_.parent), part(all_.extent),          part(all_.loop_kind),
            part(all_.value),  part(all_.variable), part(all_.buffer), part(all_.buffer_elements), part(all_.call_op)};
  }

 private:
  data::ProgramNodes all_;
  std::vector<std::string> ids_;
};

}  // namespace foretime::testing
