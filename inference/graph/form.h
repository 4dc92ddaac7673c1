#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plans/message_plan.h"

/// The form of a trained model that everything but the trainer executes: a list of primitive operations over the arrays
/// and sparse matrices of a message plan, with named weights. The native runtime (executor.h), the TorchScript
/// generator and tools/check_bundle.py all run this list, so no architecture is written twice. docs/bundle.md describes
/// it for those who write a runtime of their own.
namespace foretime::inference {

/// One operation. Values are float32 matrices [rows, columns]; each is made once and has a name. Sparse matrices belong
/// to the plan (plan_matrices.h). y is the result, x and z are inputs, W and v weights ("": none); act multiplies
/// negative numbers by numbers["slope"] (1, the default: no activation).
///
///   select     columns `columns` of x
///   transform  clip((log? (x) - v0) * v1): numbers log (1: sign(x) ln(1 + |x|) first), clip (0: none)
///   codes      rows of numbers as vectors: number k of a row of x chooses row k * values + min(max(number - least, 0),
///              values - 1) of W; those of a row stand side by side; row 0 of x, which is no layout, gives zeros.
///              numbers values, least
///   lookup     matrix * W: row r is the row of W that r's type, collection or the like chooses
///   dense      act(x W[:, start : start + columns of x]ᵀ + v): weights W [outputs, inputs], v [outputs]; numbers start
///   csr_sum    act(Σ_t matrix_t * x_t + v); a matrix "" is the identity
///   csr_max    y[r] = maximum over the entries of row r of the matrix of x[column]; 0 without entries
///   attention  y[r] = Σ_e α_e z[column(e)] over the entries e of row r, head by head (number heads), α the
///              softmax over the row's entries of a logit, an entry of value m counting as m entries. inputs a, b,
///              z. mode additive: logit = act(a[r, h] + b[column, h]), act of numbers logit_slope; mode dot:
///              scale * a[r] · b[column] over the columns of the head
///   join       inputs side by side
///   add        Σ_i numbers["factor" i] x_i (1 where not given) + v
///   multiply   x * z, elementwise
///   activate   mode leaky (number slope), tanh, exp, log
///   normalize  mode layer: (row - mean) / sqrt(variance + epsilon) * v0 + v1; mode affine: x * v0 + v1;
///              mode l2: row / max(norm, epsilon)
///   pool       through a pool's stages: mode sum, mean (over the sum of its entries, at least 1), max
///   group      over the candidates of a group, only in `score`: mode standardize: (x - mean) / sqrt(variance +
///              epsilon); mode softmax: [x, n x softmax(v0 x)] for n candidates
///   top_nodes  pooling of many graphs (TPGNN; models/topk_pool.h): keeps the ceil(ratio n) nodes of each graph with
///              the largest s = x v / |v| and gives x tanh(s) of those; numbers ratio, tie (scores nearer to each other
///              than this part of the graph's largest are tied, the first nodes stay). matrices: the adjacency A of the
///              nodes, and the pool of the graphs' nodes. What is left of both are NAME.adjacency and NAME.nodes, and
///              D^-½ A D^-½ of what is left is NAME.relation, NAME the result's
struct Operation {
  std::string op;
  std::string result;
  std::vector<std::string> inputs = {};
  std::vector<std::string> matrices = {};  // of the plan; pool: the pool's name
  std::vector<std::string> weights = {};
  std::string mode = {};
  std::map<std::string, double> numbers = {};
  std::vector<int64_t> columns = {};

  /// A number, or `otherwise`.
  double number(const std::string& name, double otherwise) const;
  bool operator==(const Operation&) const = default;
};

/// Inputs that a list may name without making them.
inline constexpr const char* kNodeFeatures = "node_features";            // [nodes, features]
inline constexpr const char* kLayoutRows = "layout_rows";                // [rows, 18], the first one zeros
inline constexpr const char* kCandidateFeatures = "candidate_features";  // [candidates, 24]
inline constexpr const char* kEmbedded = "embedded";                     // of `score`: what `embed` gave

/// A model: what its plans must hold, and two lists.
struct Form {
  plans::PlanRequest request;
  bool statements = false;       // programs in parts (StatementParts)
  std::vector<Operation> embed;  // each candidate for itself → `embedded` [candidates, columns]
  std::vector<Operation> score;  // candidates of a group compared → `scores` [candidates, 1]
  std::string embedded, scores;  // the names of the two results
  int64_t embedded_columns = 0;
};

/// Shapes of the weights that a form may name: {rows, columns}, or {length} for a vector.
using WeightShapes = std::map<std::string, std::vector<int64_t>>;

nlohmann::json to_json(const Form& form);

/// Reads what to_json wrote and checks all of it: names, numbers of inputs and weights, widths from `feature_count`
/// columns of node features on to one column of scores. Afterwards only numbers of rows can be wrong. Throws
/// BundleError, naming the operation.
Form parse_form(const nlohmann::json& json, const WeightShapes& weights, int64_t feature_count);

/// The same checks of a form that was never JSON.
void check_form(const Form& form, const WeightShapes& weights, int64_t feature_count);

}  // namespace foretime::inference
