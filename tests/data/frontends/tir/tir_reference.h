#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/graphs/program_nodes.h"
#include "data/graphs/schema.h"

/// The slow, obvious way from save_json text to a syntax tree: nlohmann's JSON, and recursion. It knows fields by
/// itself, not from the reader's table, and trusts its input.
namespace foretime::testing {

class TirReference {
 public:
  explicit TirReference(std::string_view text) : json_(nlohmann::json::parse(text)) {}

  data::ProgramNodes tree() {
    const int64_t root = json_.at("root");
    if (type(root) == "tir.PrimFunc") {
      for (const int64_t parameter : data(ref(root, "params"))) variable(parameter);
      const auto map = data(ref(root, "buffer_map"));
      for (size_t i = 1; i < map.size(); i += 2) {
        buffer(map[i]);
        variable(ref(map[i], "data"));
      }
    }
    walk(root, -1);
    nodes_.graph_ptr.push_back(static_cast<int64_t>(nodes_.nodes()));
    return nodes_;
  }

 private:
  const nlohmann::json& node(int64_t i) const { return json_.at("nodes").at(static_cast<size_t>(i)); }
  std::string type(int64_t i) const { return node(i).at("type_key"); }
  std::string attribute(int64_t i, const char* name) const { return node(i).at("attrs").at(name); }
  int64_t ref(int64_t i, const char* name) const { return std::stoll(attribute(i, name)); }
  std::vector<int64_t> data(int64_t i) const { return node(i).value("data", std::vector<int64_t>()); }
  int32_t variable(int64_t i) {
    return variables_.try_emplace(i, static_cast<int32_t>(variables_.size())).first->second;
  }
  int32_t buffer(int64_t i) { return buffers_.try_emplace(i, static_cast<int32_t>(buffers_.size())).first->second; }
  int64_t product(int64_t array) const {
    int64_t product = 1;
    for (const int64_t size : data(array)) product *= type(size) == "IntImm" ? ref(size, "value") : 0;
    return product;
  }
  bool constant(int64_t i) const { return type(i) == "IntImm"; }

  void walk(int64_t i, int32_t parent) {
    const std::string key = type(i);
    const auto me = static_cast<int32_t>(nodes_.nodes());
    const std::string name = key.starts_with("tir.") ? key.substr(4) : key;
    nodes_.type.push_back(data::tir_type_id(name));
    nodes_.parent.push_back(parent);
    nodes_.extent.push_back(0);
    nodes_.loop_kind.push_back(-1);
    nodes_.value.push_back(std::numeric_limits<double>::quiet_NaN());
    nodes_.variable.push_back(-1);
    nodes_.buffer.push_back(-1);
    nodes_.buffer_elements.push_back(0);
    nodes_.call_op.push_back(0);
    const auto child = [&](const char* field) { walk(ref(i, field), me); };
    const auto children = [&](const char* field) {
      for (const int64_t c : data(ref(i, field))) walk(c, me);
    };
    const auto unless_constant = [&](int64_t c) {
      if (!constant(c)) walk(c, me);
    };
    const auto touch = [&] {
      nodes_.buffer.back() = buffer(ref(i, "buffer"));
      nodes_.buffer_elements.back() = product(ref(ref(i, "buffer"), "shape"));
    };
    if (name == "PrimFunc") {
      child("body");
    } else if (name == "For") {
      nodes_.variable.back() = variable(ref(i, "loop_var"));
      nodes_.loop_kind.back() = static_cast<int8_t>(ref(i, "kind"));
      const int64_t extent = ref(i, "extent");
      if (constant(extent)) nodes_.extent.back() = ref(extent, "value");
      unless_constant(ref(i, "min"));
      unless_constant(extent);
      child("body");
    } else if (name == "Allocate") {
      nodes_.variable.back() = variable(ref(i, "buffer_var"));
      nodes_.extent.back() = product(ref(i, "extents"));
      for (const int64_t c : data(ref(i, "extents"))) unless_constant(c);
      unless_constant(ref(i, "condition"));
      child("body");
    } else if (name == "BufferRealize") {
      touch();
      nodes_.extent.back() = 1;
      for (const int64_t range : data(ref(i, "bounds"))) {
        const int64_t extent = ref(range, "extent");
        nodes_.extent[static_cast<size_t>(me)] *= constant(extent) ? ref(extent, "value") : 0;
        unless_constant(ref(range, "min"));
        unless_constant(extent);
      }
      unless_constant(ref(i, "condition"));
      child("body");
    } else if (name == "LetStmt" || name == "Let") {
      nodes_.variable.back() = variable(ref(i, "var"));
      child("value");
      child("body");
    } else if (name == "AttrStmt") {
      child("value");
      child("body");
    } else if (name == "IfThenElse") {
      child("condition");
      child("then_case");
      if (ref(i, "else_case") != 0) child("else_case");
    } else if (name == "SeqStmt") {
      children("seq");
    } else if (name == "BufferStore") {
      touch();
      children("indices");
      child("value");
    } else if (name == "BufferLoad") {
      touch();
      children("indices");
    } else if (name == "Call") {
      nodes_.call_op.back() = static_cast<uint8_t>(data::call_op_index(node(ref(i, "op")).value("repr_str", "")));
      children("args");
    } else if (name == "Select") {
      child("condition");
      child("true_value");
      child("false_value");
    } else if (name == "Ramp") {
      child("base");
      child("stride");
    } else if (name == "Broadcast" || name == "Cast" || name == "Evaluate") {
      child("value");
    } else if (name == "Var" || name == "SizeVar") {
      nodes_.variable.back() = variable(i);
    } else if (name == "IntImm" || name == "FloatImm") {
      nodes_.value.back() = std::stod(attribute(i, "value"));
    } else if (node(i).contains("attrs") && node(i).at("attrs").contains("b")) {
      child("a");
      child("b");
    }
  }

  nlohmann::json json_;
  data::ProgramNodes nodes_;
  std::map<int64_t, int32_t> variables_, buffers_;
};

}  // namespace foretime::testing
