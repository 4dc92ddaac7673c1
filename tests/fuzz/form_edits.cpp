#include "tests/fuzz/form_edits.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace foretime::fuzz {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

const Names kOperations = {"select",    "transform", "codes",     "lookup", "dense",    "csr_sum",
                           "csr_max",   "attention", "join",      "add",    "multiply", "activate",
                           "normalize", "pool",      "top_nodes", "group"};
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
                         "new.adjacency",
                         "new.relation",
                         "new.nodes",
                         "level.9.node",
                         "layer.99999999999999999999.self"};
const Names kModes = {"",       "additive", "dot", "leaky", "tanh", "exp",         "log",    "layer",
                      "affine", "l2",       "sum", "mean",  "max",  "standardize", "softmax"};
const Names kNumbers = {"slope", "start",   "log",   "clip",    "values", "least",      "heads",
                        "scale", "factor0", "ratio", "epsilon", "tie",    "logit_slope"};
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
    Json& form = bundle_.manifest["form"];
    for (int i = 0; i < kMostEdits && !bytes_.empty(); ++i) {
      if (next(6) == 0)
        edit_request(form);
      else
        edit_list(next(4) == 0 ? form["score"] : form["embed"]);
    }
    if (next(2) == 1) {
      // Whatever the last value's width: one column of it is the score.
      auto& embed = form["embed"];
      std::string last = embed.back()["result"];
      if (next(2) == 1) {
        embed.push_back(
            {{"op", "pool"}, {"result", "pooled"}, {"inputs", {last}}, {"matrices", {"nodes"}}, {"mode", "sum"}});
        last = "pooled";
      }
      embed.push_back({{"op", "select"}, {"result", "one"}, {"inputs", {last}}, {"columns", {0}}});
      form["embedded"] = "one";
      form["embedded_columns"] = 1;
      form["score"] =
          Json::array({{{"op", "select"}, {"result", "final"}, {"inputs", {"embedded"}}, {"columns", {0}}}});
      form["scores"] = "final";
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
      copy["result"] = next(3) == 0 ? "new" : "new" + std::to_string(made_++);
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(next(list.size() + 1)), copy);
      return;
    }
    Json& operation = list[at];
    switch (next(7)) {
      case 0:
        operation["op"] = one_of(kOperations);
        break;
      case 1:
        edit_names(operation, "inputs", one_of(values));
        break;
      case 2:
        edit_names(operation, "matrices", one_of(kMatrices));
        break;
      case 3:
        edit_names(operation, "weights", one_of(weights_));
        break;
      case 4:
        operation["mode"] = one_of(kModes);
        break;
      case 5:
        operation["numbers"][one_of(kNumbers)] = kValues[next(kValues.size())];
        break;
      default:
        operation["columns"] = Json::array({next(200), next(8)});
    }
  }

  void edit_request(Json& form) {
    Json& request = form["request"];
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
        form["statements"] = next(2) == 1;
    }
  }

  inference::Bundle bundle_;
  std::string_view bytes_;
  Names weights_;
  int made_ = 0;
};

}  // namespace

inference::Bundle edited_form(inference::Bundle bundle, std::string_view bytes) {
  return Editor(std::move(bundle), bytes).edit();
}

}  // namespace foretime::fuzz
