#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "configs/settings.h"
#include "inference/runtime/context.h"
#include "inference/runtime/references.h"

/// All operations of an inference graph. Each is a struct here with its fields, whose names are those of the JSON, and
/// a file beside this one with the rule for the width of its result (columns), its kernel (run) and what TorchScript
/// calls it (script). A new one is added here and in models/autograd/operations.cpp, which says how LibTorch computes
/// it in training, or nothing links.
namespace foretime::inference {

/// What each operation has, with its word in JSON and its fields in their order.
#define FORETIME_OPERATION(Name, word, ...)                 \
  static constexpr const char* kName = word;                \
  static constexpr std::string_view kFields = #__VA_ARGS__; \
  auto fields() { return std::tie(__VA_ARGS__); }           \
  auto fields() const { return std::tie(__VA_ARGS__); }     \
  bool operator==(const Name&) const = default;             \
  int64_t columns(const Widths& widths) const;              \
  Matrix run(const Run& run) const;                         \
  std::string script(ScriptWriter& writer) const

FORETIME_CHOICE(ActivateMode, leaky, tanh, exp, log, rsqrt);
FORETIME_CHOICE(PoolMode, sum, max);

/// Columns of x, in the order of `columns`.
struct Select {
  Value x = {};
  std::vector<int64_t> chosen = {};
  FORETIME_OPERATION(Select, "select", x, chosen);
};

/// Features made comparable: clip((f(x) - offset) * scale), f(x) = sign(x) ln(1 + |x|) with `log`, else x. Offset and
/// scale are columns [start, start + columns of x) of longer vectors.
struct Transform {
  Value x = {};
  WeightRef offset = {};
  WeightRef scale = {};
  int64_t start = 0;
  bool log = false;
  double clip = 0;  // results are limited to [-clip, clip]; 0: no limit
  FORETIME_OPERATION(Transform, "transform", x, offset, scale, start, log, clip);
};

/// Rows of small whole numbers as vectors: number k of a row chooses row k * values + min(max(number - least, 0),
/// values - 1) of the table; the vectors of a row stand side by side. Row 0 of x, which is no layout, gives zeros.
struct LayoutCodes {
  Value x = {};
  WeightRef table = {};  // [columns of x * values, width]
  int64_t values = 1;
  int64_t least = 0;
  FORETIME_OPERATION(LayoutCodes, "layout_codes", x, table, values, least);
};

/// Row r is the row of the table that r's type, collection or the like chooses.
struct Lookup {
  MatrixRef matrix = {};  // a matrix with one entry a row
  WeightRef table = {};
  FORETIME_OPERATION(Lookup, "lookup", matrix, table);
};

/// act(x W[:, start : start + columns of x]ᵀ + b): a linear layer, or the part of one that takes some of its inputs.
/// act multiplies negative numbers by `slope` (1: no activation).
struct Dense {
  Value x = {};
  WeightRef weight = {};  // [outputs, inputs]
  WeightRef bias = {};    // [outputs], or none
  int64_t start = 0;
  double slope = 1;
  FORETIME_OPERATION(Dense, "dense", x, weight, bias, start, slope);
};

/// Matrices side by side.
struct Join {
  std::vector<Value> inputs = {};
  FORETIME_OPERATION(Join, "join", inputs);
};

/// Σ factors[i] inputs[i] + bias + constant. Factors that are not given are 1.
struct Add {
  std::vector<Value> inputs = {};
  std::vector<double> factors = {};
  WeightRef bias = {};  // [columns], or none
  double constant = 0;
  FORETIME_OPERATION(Add, "add", inputs, factors, bias, constant);
};

/// The mean of matrices of one shape.
struct Average {
  std::vector<Value> inputs = {};
  FORETIME_OPERATION(Average, "average", inputs);
};

/// x * z, element by element.
struct Multiply {
  Value x = {};
  Value z = {};
  FORETIME_OPERATION(Multiply, "multiply", x, z);
};

/// x * (offset + factors), column by column; a single factor counts for all columns.
struct Scale {
  Value x = {};
  WeightRef factors = {};  // [columns] or [1]
  double offset = 0;
  FORETIME_OPERATION(Scale, "scale", x, factors, offset);
};

/// A function of each number: leaky multiplies negative ones by `number` (0: ReLU); tanh, exp and log are those; rsqrt
/// is 1 / sqrt(x + number).
struct Activate {
  using Mode = ActivateMode;
  Value x = {};
  Mode mode = Mode::leaky;
  double number = 0;
  FORETIME_OPERATION(Activate, "activate", x, mode, number);
};

/// Each row over its own columns (Ba et al., arXiv 1607.06450): (x - mean) / sqrt(variance + epsilon) * weight + bias.
struct LayerNorm {
  Value x = {};
  WeightRef weight = {};
  WeightRef bias = {};
  double epsilon = 1e-5;
  FORETIME_OPERATION(LayerNorm, "layer_norm", x, weight, bias, epsilon);
};

/// Each column by its mean and variance (Ioffe and Szegedy, arXiv 1502.03167): (x - mean) / sqrt(variance + epsilon) *
/// weight + bias. Here these are the running ones; in training those of the batch, where the states of `level` count as
/// often as pairs of a node and a candidate have them.
struct BatchNorm {
  Value x = {};
  WeightRef weight = {};
  WeightRef bias = {};
  WeightRef mean = {};
  WeightRef variance = {};
  double epsilon = 1e-5;
  int64_t level = 0;
  FORETIME_OPERATION(BatchNorm, "batch_norm", x, weight, bias, mean, variance, epsilon, level);
};

/// Each row over its Euclidean norm, which counts as `epsilon` at least.
struct L2Normalize {
  Value x = {};
  double epsilon = 1e-12;
  FORETIME_OPERATION(L2Normalize, "l2_normalize", x, epsilon);
};

/// Each column over the candidates of a group: (x - mean) / sqrt(variance + epsilon). Of `score` only.
struct Standardize {
  Value x = {};
  double epsilon = 1e-5;
  FORETIME_OPERATION(Standardize, "standardize", x, epsilon);
};

/// Attention of a group's n candidates to each other, column by column: [x, n x softmax(x exp(-log_temperature))]. Of
/// `score` only.
struct CandidateSoftmax {
  Value x = {};
  WeightRef log_temperature = {};  // [1]
  FORETIME_OPERATION(CandidateSoftmax, "candidate_softmax", x, log_temperature);
};

/// act(Σ_t matrices[t] inputs[t] + bias), in one pass over the rows.
struct CsrSum {
  std::vector<MatrixRef> matrices = {};
  std::vector<Value> inputs = {};
  WeightRef bias = {};  // [columns], or none
  double slope = 1;
  FORETIME_OPERATION(CsrSum, "csr_sum", matrices, inputs, bias, slope);
};

/// act(Σ_t matrices[t] x weights[t]ᵀ + bias): a convolution that sums linear layers of messages. Whether x is
/// multiplied by a weight or by a matrix first is up to whoever runs it.
struct CsrDense {
  Value x = {};
  std::vector<MatrixRef> matrices = {};
  std::vector<WeightRef> weights = {};  // [outputs, columns of x]
  WeightRef bias = {};                  // [outputs], or none
  double slope = 1;
  FORETIME_OPERATION(CsrDense, "csr_dense", x, matrices, weights, bias, slope);
};

/// Row r is the maximum of x[column] over the entries of row r of the matrix, whatever their values; 0 without entries.
struct CsrMax {
  Value x = {};
  MatrixRef matrix = {};
  FORETIME_OPERATION(CsrMax, "csr_max", x, matrix);
};

/// [rows, heads]: x[r, h] · weight[h] over the columns of each head, which stand side by side in x.
struct HeadDot {
  Value x = {};
  WeightRef weight = {};  // [heads, width of a head]
  FORETIME_OPERATION(HeadDot, "head_dot", x, weight);
};

/// y[r] = Σ_e α_e x[column(e)] over the entries e of row r, head by head, α the softmax over the row's entries of
/// act(target[r, h] + source[column, h]); an entry of value m counts as m entries (Veličković et al., arXiv
/// 1710.10903).
struct AdditiveAttention {
  MatrixRef matrix = {};
  Value target = {};  // [rows, heads]
  Value source = {};  // [columns, heads]
  Value x = {};       // [columns, heads * width]
  double slope = 1;
  FORETIME_OPERATION(AdditiveAttention, "additive_attention", matrix, target, source, x, slope);
};

/// y[r] = Σ_e α_e value[column(e)] over the entries e of row r, head by head, α the softmax over the row's entries of
/// scale * query[r] · key[column]; an entry of value m counts as m entries (Shi et al., arXiv 2009.03509).
struct DotAttention {
  MatrixRef matrix = {};
  Value query = {};  // [rows, heads * width]
  Value key = {};    // [columns, heads * width]
  Value value = {};  // [columns, heads * any]
  int64_t heads = 1;
  double scale = 1;
  FORETIME_OPERATION(DotAttention, "dot_attention", matrix, query, key, value, heads, scale);
};

/// Sums or maxima over a pool of states (references.h), through its stages.
struct PoolStates {
  using Mode = PoolMode;
  Value x = {};
  MatrixRef matrix = {};
  Mode mode = Mode::sum;
  FORETIME_OPERATION(PoolStates, "pool", x, matrix, mode);
};

/// Sums over a pool by the number of states in each row (the sum of its entries, at least 1): their means.
struct PoolMean {
  Value sums = {};
  MatrixRef matrix = {};  // the pool
  FORETIME_OPERATION(PoolMean, "pool_mean", sums, matrix);
};

/// Pooling of many graphs (Gao and Ji, "Graph U-Nets", arXiv 1905.05178): keeps the ceil(ratio n) nodes of each graph
/// with the largest s = x v / |v| and gives x tanh(s) of those. Scores nearer to each other than `tie` of the graph's
/// largest are tied, and of tied nodes the first stay. Its result names the matrices of what is left: adjacency,
/// normalized_adjacency and kept_nodes.
struct TopNodes {
  Value x = {};
  MatrixRef adjacency = {};  // matrix of the nodes
  MatrixRef nodes = {};      // says which nodes are of which graph
  WeightRef weight = {};     // v [columns of x]
  double ratio = 1;
  double tie = 0;
  FORETIME_OPERATION(TopNodes, "top_nodes", x, adjacency, nodes, weight, ratio, tie);
};

/// ceil(ratio * nodes), at least 1 of any nodes; taken as whole where only rounding keeps it from being so.
int64_t kept_nodes(int64_t nodes, double ratio);

/// Writes the ids, from `first` on, of the `count` best of a graph's scores, ascending. Scores nearer to each other
/// than `tie_part` of the largest are ties, and of tied nodes the first ones stay. No score is NaN.
void choose_nodes(std::span<const double> scores, int64_t count, double tie_part, int64_t first, int64_t* kept);

/// x, of which training sets each number to 0 with this probability and divides the others by 1 - probability. Exported
/// graphs have none.
struct Dropout {
  Value x = {};
  double probability = 0;
  FORETIME_OPERATION(Dropout, "dropout", x, probability);
};

using Operation =
    std::variant<Select, Transform, LayoutCodes, Lookup, Dense, Join, Add, Average, Multiply, Scale, Activate,
                 LayerNorm, BatchNorm, L2Normalize, Standardize, CandidateSoftmax, CsrSum, CsrDense, CsrMax, HeadDot,
                 AdditiveAttention, DotAttention, PoolStates, PoolMean, TopNodes, Dropout>;

/// Calls f(name, field) for each field of an operation.
template <class Op, class F>
void visit_fields(Op& operation, F&& f) {
  const auto names = configs::split_words(Op::kFields);
  auto name = names.begin();
  std::apply([&](auto&... field) { (f(*name++, field), ...); }, operation.fields());
}

/// Calls f for each field of type T, and for each element of the fields that are lists of T.
template <class T, class Any, class F>
void visit_all(Any& operation, F&& f) {
  const auto visit_field = [&](auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, T>) {
      f(field);
    } else if constexpr (std::is_same_v<Field, std::vector<T>>) {
      for (auto& each : field) f(each);
    }
  };
  std::visit([&](auto& o) { std::apply([&](auto&... field) { (visit_field(field), ...); }, o.fields()); }, operation);
}

}  // namespace foretime::inference
