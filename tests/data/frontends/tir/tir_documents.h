#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

/// Small save_json texts, put together by hand for what the real files do not hold.
namespace foretime::testing {

class TirText {
 public:
  using Attributes = std::vector<std::pair<std::string, std::string>>;

  explicit TirText(std::string version = "0.14.0") {
    json_["root"] = 1;
    json_["nodes"].push_back({{"type_key", ""}});
    json_["b64ndarrays"] = nlohmann::json::array();
    json_["attrs"]["tvm_version"] = std::move(version);
  }
  /// Number of the new node.
  int add(const std::string& type, const Attributes& attributes = {}) {
    nlohmann::json node = {{"type_key", type}};
    for (const auto& [name, value] : attributes) node["attrs"][name] = value;
    json_["nodes"].push_back(node);
    return static_cast<int>(json_["nodes"].size()) - 1;
  }
  int list(const std::vector<int>& data, const std::string& type = "Array") {
    const int node = add(type);
    if (!data.empty()) json_["nodes"][static_cast<size_t>(node)]["data"] = data;
    return node;
  }
  int integer(int64_t value) {
    return add("IntImm", {{"dtype", "int32"}, {"span", "0"}, {"value", std::to_string(value)}});
  }
  int variable() { return add("tir.Var", {{"dtype", "int32"}, {"name", "0"}, {"span", "0"}}); }
  int binary(const std::string& type, int a, int b) { return add(type, {{"a", name(a)}, {"b", name(b)}}); }
  int op(const std::string& repr) {
    const int node = add("Op");
    json_["nodes"][static_cast<size_t>(node)]["repr_str"] = repr;
    return node;
  }
  int buffer(int data, const std::vector<int>& sizes) {
    std::vector<int> shape;
    for (const int size : sizes) shape.push_back(integer(size));
    return add("tir.Buffer", {{"data", name(data)}, {"shape", name(list(shape))}});
  }
  int evaluate(int value) { return add("tir.Evaluate", {{"value", name(value)}}); }
  int loop(int extent, int body, int kind = 0, int min = -1) {
    return add("tir.For", {{"loop_var", name(variable())},
                           {"min", name(min < 0 ? integer(0) : min)},
                           {"extent", name(extent)},
                           {"kind", std::to_string(kind)},
                           {"body", name(body)}});
  }
  int function(int body, const std::vector<int>& parameters = {}, const std::vector<int>& buffer_map = {}) {
    return add("tir.PrimFunc", {{"params", name(list(parameters))},
                                {"buffer_map", name(list(buffer_map, "Map"))},
                                {"body", name(body)},
                                {"ret_type", "0"}});
  }
  TirText& root(int node) {
    json_["root"] = node;
    return *this;
  }
  void set(int node, const std::string& attribute, const std::string& value) {
    json_["nodes"][static_cast<size_t>(node)]["attrs"][attribute] = value;
  }
  nlohmann::json& json() { return json_; }
  std::string text() const { return json_.dump(); }
  static std::string name(int node) { return std::to_string(node); }

 private:
  nlohmann::json json_;
};

}  // namespace foretime::testing
