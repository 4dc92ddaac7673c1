#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// What the operations of an inference graph (graph.h) refer to.
namespace foretime::inference {

/// A bundle, or a form or tensor in it, that is damaged, of another version, or does not fit its parts or what it is
/// given. The message says what was found and what was expected.
struct BundleError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// A float32 matrix [rows, columns]: an input of the graph, or the result of one of its nodes.
struct Value {
  int32_t id = -1;  // below kInputs: an input; else node id - kInputs of the list; -1: none
  bool defined() const { return id >= 0; }
  auto operator<=>(const Value&) const = default;
};

inline constexpr Value kNodeFeatures{0};       // [nodes, features]
inline constexpr Value kLayoutRows{1};         // [rows, 18], the first one zeros
inline constexpr Value kCandidateFeatures{2};  // [candidates, 24]
inline constexpr Value kEmbedded{3};           // of `score`: what `embed` gave
inline constexpr int32_t kInputs = 4;
inline constexpr const char* kInputNames[kInputs] = {"node_features", "layout_rows", "candidate_features", "embedded"};

/// A parameter or buffer of the model by its name, which is empty where an operation goes without one.
struct WeightRef {
  std::string name;
  int32_t slot = -1;  // of whoever runs the graph
  bool defined() const { return !name.empty(); }
  bool operator==(const WeightRef& other) const { return name == other.name; }
};

/// A named weight: row-major, one or two dimensions.
struct Weight {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Weight>;

/// Shapes of the weights that a graph may name: {rows, columns}, or {length} for a vector.
using WeightShapes = std::map<std::string, std::vector<int64_t>>;
WeightShapes shapes_of(const Weights& weights);

/// A sparse matrix of a message plan, or one that an operation makes.
///   node_types, collections                   [nodes, types]: which type each node has
///   level_node, _layout_row, _candidate       [states of level `at`, nodes | rows of layout_rows | candidates]
///   relation, self                            [states of level `at` + 1, states of level `at`]
///   nodes, configurable, tied                 pools: [candidates, states of the last level], in stages
///   candidate_of                              the transpose of nodes, in plans without shared states
/// of programs in statements (StatementParts):
///   statements, loops                         [statements | loops, nodes]
///   loops_of, innermost, second               [statements, loops]
///   access                                    [statements, nodes], slot `at`
///   statements_of, program_of                 [candidates, statements] and its transpose
/// of the graphs of a batch, as the top_nodes operation with result `at` has left them; as they are in the plan for -1:
///   adjacency                                 [nodes, nodes]
///   normalized_adjacency                      D^-½ A D^-½
///   kept_nodes                                [candidates, nodes]
struct MatrixRef {
  enum class Kind : uint8_t {
    identity,
    node_types,
    collections,
    level_node,
    level_layout_row,
    level_candidate,
    relation,
    self,
    nodes,
    configurable,
    tied,
    candidate_of,
    statements,
    loops,
    loops_of,
    innermost,
    second,
    access,
    statements_of,
    program_of,
    adjacency,
    normalized_adjacency,
    kept_nodes,
  };
  Kind kind = Kind::identity;
  int32_t at = 0;
  int32_t relation = 0;   // of the layer
  int32_t drop_set = -1;  // in training: which of the independent choices of dropped messages; -1: none is dropped
  auto operator<=>(const MatrixRef&) const = default;
};

/// The name of a value (v7, node_features) and of a matrix (layer.0.relation.1, v7.adjacency) in bundles.
std::string to_string(Value value);
std::string to_string(const MatrixRef& matrix);
/// Throws BundleError for names that to_string does not make.
Value parse_value(std::string_view name);
MatrixRef parse_matrix(std::string_view name);

}  // namespace foretime::inference
