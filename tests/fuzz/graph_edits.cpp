#include "tests/fuzz/graph_edits.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace foretime::fuzz {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

const Names kOperations = {"select",
                           "transform",
                           "layout_codes",
                           "lookup",
                           "dense",
                           "join",
                           "add",
                           "average",
                           "multiply",
                           "scale",
                           "activate",
                           "layer_norm",
                           "batch_norm",
                           "l2_normalize",
                           "standardize",
                           "candidate_softmax",
                           "csr_sum",
                           "csr_dense",
                           "csr_max",
                           "head_dot",
                           "additive_attention",
                           "dot_attention",
                           "pool",
                           "pool_mean",
                           "top_nodes",
                           "dropout"};
const Names kMatrices = {"",
                         "node_types",
                         "collections",
                         "level.0.node",
                         "level.0.layout_row",
                         "level.0.candidate",
                         "level.1.node",
                         "layer.0.relation.0",
                         "layer.0.relation.1",
                         "layer.0.self",
                         "nodes",
                         "configurable",
                         "tied",
                         "candidate_of",
                         "statements",
                         "loops",
                         "loops_of",
                         "innermost",
                         "second",
                         "access.0",
                         "access.3",
                         "statements_of",
                         "program_of",
                         "adjacency",
                         "normalized_adjacency",
                         "kept_nodes",
                         "v0.adjacency",
                         "v1.normalized_adjacency",
                         "v2.kept_nodes",
                         "level.9.node",
                         "layer.99999999999999999999.self"};
const Names kModes = {"leaky", "tanh", "exp", "log", "rsqrt", "sum", "max", "least"};
const Names kNumbers = {"slope", "start", "clip",     "values", "least",   "heads",  "scale",
                        "ratio", "tie",   "constant", "offset", "epsilon", "number", "level"};
const Names kValueFields = {"x", "z", "sums", "target", "source", "query", "key", "value"};
const Names kWeightFields = {"weight",  "bias", "table",    "offset",         "scale",
                             "factors", "mean", "variance", "log_temperature"};
const Names kMatrixFields = {"matrix", "adjacency", "nodes"};
const std::vector<double> kValues = {0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 6.0, 8.0, 255.0, 1e-9, 1e30, -1e30, 128.0, -128.0};
const Names kDirections = {"in", "out", "both"};
const Names kNorms = {"sum", "mean", "symmetric", "sender", "laplacian", "laplacian_of_two"};

class Editor {
 public:
  Editor(inference::Bundle bundle, std::string_view bytes) : bundle_(std::move(bundle)), bytes_(bytes) {
    for (const auto& [name, weight] : bundle_.weights) weights_.push_back(name);
    weights_.emplace_back();
  }

  inference::Bundle edit() {
    Json& graph = bundle_.manifest["graph"];
    for (int i = 0; i < kMostEdits && !bytes_.empty(); ++i) {
      if (next(6) == 0)
        edit_request(graph);
      else
        edit_list(next(4) == 0 ? graph["score"] : graph["embed"]);
    }
    if (next(2) == 1) {
      // Whatever the last value's width: one column of it is the score.
      auto& embed = graph["embed"];
      const auto add = [&](Json operation) {
        operation["result"] = "v" + std::to_string(embed.size());
        embed.push_back(std::move(operation));
      };
      const auto last = [&] { return embed.back()["result"]; };
      if (next(2) == 1) add({{"op", "pool"}, {"x", last()}, {"matrix", "nodes"}});
      add({{"op", "select"}, {"x", last()}, {"chosen", {0}}});
      graph["embedded"] = last();
      graph["embedded_columns"] = 1;
      graph["score"] = Json::array({{{"op", "select"}, {"result", "v0"}, {"x", "embedded"}, {"chosen", {0}}}});
      graph["scores"] = "v0";
      bundle_.manifest["compares_candidates"] = false;
    }
    return std::move(bundle_);
  }

 private:
  static constexpr int kMostEdits = 24;

  size_t next(size_t bound) {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return value % bound;
  }
  const std::string& one_of(const Names& names) { return names[next(names.size())]; }

  /// Sets, adds or takes away one of a list of names.
  void edit_names(Json& operation, const char* key, const std::string& name) {
    auto& list = operation[key];
    if (!list.is_array()) list = Json::array();
    const size_t at = next(list.size() + 2);
    if (at < list.size())
      list[at] = name;
    else if (at == list.size())
      list.push_back(name);
    else if (!list.empty())
      list.erase(list.size() - 1);
  }

  void edit_list(Json& list) {
    Names values = {"node_features", "layout_rows", "candidate_features", "embedded"};
    for (const auto& operation : list) values.push_back(operation["result"]);
    const size_t at = next(list.size());
    if (next(4) == 0) {
      Json copy = list[next(list.size())];
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(next(list.size() + 1)), copy);
      for (size_t i = 0; i < list.size(); ++i) list[i]["result"] = "v" + std::to_string(i);
      return;
    }
    Json& operation = list[at];
    switch (next(8)) {
      case 0:
        operation["op"] = one_of(kOperations);
        break;
      case 1:
        operation[one_of(kValueFields)] = one_of(values);
        break;
      case 2:
        operation[one_of(kMatrixFields)] = one_of(kMatrices);
        break;
      case 3:
        operation[one_of(kWeightFields)] = one_of(weights_);
        break;
      case 4:
        operation["mode"] = one_of(kModes);
        break;
      case 5:
        operation[one_of(kNumbers)] = kValues[next(kValues.size())];
        break;
      case 6:
        if (next(2) == 0)
          edit_names(operation, "inputs", one_of(values));
        else
          edit_names(operation, "matrices", one_of(kMatrices));
        break;
      default:
        operation["chosen"] = Json::array({next(200), next(8)});
    }
  }

  void edit_request(Json& graph) {
    Json& request = graph["request"];
    switch (next(7)) {
      case 0:
        request["layers"] = next(4);
        break;
      case 1:
        request["relations"].push_back(
            {{"direction", one_of(kDirections)}, {"norm", one_of(kNorms)}, {"self_loop", next(2) == 1}});
        break;
      case 2:
        request["tile_join"] = one_of({"early", "late"});
        break;
      case 3:
        request["sharing"] = one_of({"none", "invariant", "states"});
        break;
      case 4:
        request["tied"] = next(2) == 1;
        break;
      case 5:
        request["collections"] = next(2) == 1;
        break;
      default:
        graph["statements"] = next(2) == 1;
    }
  }

  inference::Bundle bundle_;
  std::string_view bytes_;
  Names weights_;
};

}  // namespace

inference::Bundle edited_graph(inference::Bundle bundle, std::string_view bytes) {
  return Editor(std::move(bundle), bytes).edit();
}

}  // namespace foretime::fuzz
