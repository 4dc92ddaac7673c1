#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// Names that the operations of an inference graph (graph.h) use.
namespace foretime::inference {

/// Reports a bundle, or a graph or tensor in one, that is damaged, has another version, or does not match the other
/// parts or the input. The message has the found and the expected value.
struct BundleError : ErrorOf<kData> {
  using ErrorOf::ErrorOf;
};

/// Names a float32 matrix [rows, columns]: an input of the graph, or the result of one of its nodes.
struct Value {
  int32_t id = -1;  // 0 … kInputs - 1: an input; id - kInputs: a node of the list; -1: none
  bool defined() const { return id >= 0; }
  auto operator<=>(const Value&) const = default;
};

inline constexpr Value kNodeFeatures{0};       // [nodes, features]
inline constexpr Value kLayoutRows{1};         // [rows, 18] distinct layouts of configurable nodes; row 0 is zeros
inline constexpr Value kCandidateFeatures{2};  // [candidates, 24] features of tiles
inline constexpr Value kEmbedded{3};           // [candidates, columns] input of `score`, the result of `embed`
inline constexpr int32_t kInputs = 4;          // number of inputs
inline constexpr const char* kInputNames[kInputs] = {"node_features", "layout_rows", "candidate_features", "embedded"};

/// Names a parameter or buffer of the model. The name is empty if an operation does without the weight.
struct WeightRef {
  std::string name;
  int32_t slot = -1;  // index in Run's weights, which the Executor sets; -1: not set. Not compared by ==
  bool defined() const { return !name.empty(); }
  bool operator==(const WeightRef& other) const { return name == other.name; }
};

/// Holds a weight. Those that a graph names have one or two dimensions.
struct Weight {
  std::vector<int64_t> shape;
  std::vector<float> values;  // row-major
};
using Weights = std::map<std::string, Weight>;

/// Shapes of the weights that a graph may name: {rows, columns}, or {length} for a vector.
using WeightShapes = std::map<std::string, std::vector<int64_t>>;
WeightShapes shapes_of(const Weights& weights);

/// Names a sparse matrix of a message plan, or one that an operation makes.
///   node_types, collections                   [nodes, types]: which type each node has
///   level_node, _layout_row, _candidate       [states of level `at`, nodes | rows of layout_rows | candidates]
///   relation, self                            [states of level `at` + 1, states of level `at`]
///   nodes, configurable, tied                 pools: [candidates, states of the last level], in stages
///   candidate_of                              the transpose of nodes, in plans without shared states
/// Programs in statements (StatementParts):
///   statements, loops                         [statements | loops, nodes]
///   loops_of, innermost, second               [statements, loops]
///   access                                    [statements, nodes], slot `at`
///   statements_of, program_of                 [candidates, statements] and its transpose
/// Graphs of a batch after the top_nodes operation with result `at`, or of the whole plan for -1:
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
  int32_t at = 0;         // level, layer, slot or value, as in the table above
  int32_t relation = 0;   // number of the relation in its layer
  int32_t drop_set = -1;  // training: independent random choice of dropped messages; -1: no message is dropped
  auto operator<=>(const MatrixRef&) const = default;
};

/// Returns the name of a value in bundles, such as v7 or node_features; "" if it is undefined.
std::string to_string(Value value);
/// Returns the name of a matrix in bundles, without drop_set: layer.0.relation.1, v7.adjacency; "" for the identity.
std::string to_string(const MatrixRef& matrix);
/// Parses the name of a value. Throws BundleError for any other text, including "".
Value parse_value(std::string_view name);
/// Parses the name of a matrix; "" is the identity. Throws BundleError for any other text.
MatrixRef parse_matrix(std::string_view name);

}  // namespace foretime::inference
