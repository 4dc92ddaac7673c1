#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "inference/kernels/dense_kernels.h"
#include "inference/runtime/plan_matrices.h"
#include "inference/runtime/references.h"

/// Parameters of the functions of operations: Widths for checks, Run for execution, ScriptWriter for TorchScript.
namespace foretime::inference {

inline constexpr int64_t kWidest = 1 << 20;  // largest number of columns of a value, far above any model

/// Computes the columns of each value of a graph and checks shapes of weights. BundleErrors name the operation.
class Widths {
 public:
  /// `list` is "embed" or "score", for messages. `groups` is true for `score`, whose operations see whole groups; only
  /// operations of `embed` may use sparse matrices.
  Widths(const char* list, bool groups, const WeightShapes& weights)
      : list_(list), groups_(groups), weights_(weights) {}

  /// Sets the number of columns of an input of the graph.
  void provide(Value input, int64_t columns);
  /// Sets the name of the operation that is checked next, for messages.
  void begin(const char* operation) { operation_ = operation; }
  /// Adds the result of the next operation with its number of columns. Throws unless it is from 1 to kWidest.
  void add(int64_t columns);

  /// Returns the number of columns of a value. Throws if neither an input nor an earlier operation provides the value.
  int64_t of(Value value) const;
  bool groups() const { return groups_; }
  /// Returns {rows, columns} of a weight. Throws if the weight is missing or does not have two dimensions.
  std::pair<int64_t, int64_t> table(const WeightRef& weight) const;
  /// Throws if the weight is missing or is not a vector of `length` numbers.
  void vector(const WeightRef& weight, int64_t length) const;
  /// Returns the length of a vector weight. Throws if the weight is missing or does not have one dimension.
  int64_t length(const WeightRef& weight) const;
  void optional_vector(const WeightRef& weight, int64_t length) const {  // vector(), if the operation has the weight
    if (weight.defined()) vector(weight, length);
  }
  /// Throws if the list is `score` and the matrix is not the identity, or if no earlier operation makes the matrix.
  void matrix(const MatrixRef& matrix) const;
  /// Throws "WHAT: FOUND, expected EXPECTED" if `condition` is false.
  void expect(bool condition, const char* what, auto found, auto expected) const {
    if (!condition) fail(fmt::format("{}: {}, expected {}", what, found, expected));
  }
  /// Throws BundleError with list, number and name of the operation, and `what`.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const std::vector<int64_t>& shape(const WeightRef& weight) const;

  const char* list_;
  bool groups_;
  const WeightShapes& weights_;
  const char* operation_ = "";
  int64_t inputs_[kInputs] = {-1, -1, -1, -1};  // number of columns of each input; -1: not provided
  std::vector<int64_t> columns_;                // [operations so far] number of columns of each result
};

/// Holds the values of one pass through a list of operations. Numbers of columns were checked before (check_graph).
/// Numbers of rows depend on the plan: the kernels check them and throw BundleErrors that name the operation.
class Run {
 public:
  /// `weights` are by slot. `matrices` is null for the list `score`. `group_ptr` [groups + 1], the first row of each
  /// group, is empty for `embed`. `nodes` is the number of operations.
  Run(std::span<const Weight* const> weights, PlanMatrices* matrices, std::span<const int64_t> group_ptr, size_t nodes,
      Workspace& workspace)
      : weights_(weights),
        matrices_(matrices),
        group_ptr_(group_ptr),
        workspace_(workspace),
        values_(kInputs + nodes) {}

  Matrix& at(Value value) { return values_[value.id]; }              // to set the value
  const Matrix& in(Value value) const { return values_[value.id]; }  // to read the value
  const Weight& table(const WeightRef& weight) const { return *weights_[weight.slot]; }
  /// Returns the numbers of a vector weight; null if the operation has no such weight.
  const float* vector(const WeightRef& weight) const {
    return weight.defined() ? table(weight).values.data() : nullptr;
  }
  /// Returns a matrix of the plan. Throws BundleError if it is missing or does not have `columns` columns.
  const SparseMatrix& matrix(const MatrixRef& name, int64_t columns) const;
  /// Returns a matrix of the plan. Throws BundleError if it is missing.
  const SparseMatrix& matrix(const MatrixRef& name) const { return matrices_->matrix(name); }
  const Pool& pool(const MatrixRef& name) const { return matrices_->pool(name); }
  void add(const MatrixRef& name, SparseMatrix matrix) const { matrices_->add(name, std::move(matrix)); }
  std::span<const int64_t> group_ptr() const { return group_ptr_; }

  /// Returns a matrix of this size with unspecified values, in memory of the workspace.
  Matrix made(int64_t rows, int64_t columns) const { return {rows, columns, taken(rows * columns)}; }
  std::vector<float> taken(int64_t count) const { return workspace_.take(count); }
  void give(std::vector<float>&& buffer) const { workspace_.give(std::move(buffer)); }

  /// Throws BundleError if `found`, a number of rows, differs from `expected`.
  void expect_rows(int64_t found, int64_t expected) const;
  /// Throws BundleError with the result and the name of the running operation, and `what`.
  [[noreturn]] void fail(const std::string& what) const;

  /// Sets the result and the name of the operation that runs next, for messages.
  void begin(Value result, const char* operation) {
    result_ = result;
    operation_ = operation;
  }
  Value result() const { return result_; }

 private:
  std::span<const Weight* const> weights_;
  PlanMatrices* matrices_;
  std::span<const int64_t> group_ptr_;
  Workspace& workspace_;
  std::vector<Matrix> values_;
  Value result_;
  const char* operation_ = "";
};

/// Writes operations as expressions of TorchScript. In the written methods, `m` is the dictionary of the plan's arrays.
class ScriptWriter {
 public:
  static std::string value(Value value) { return to_string(value); }
  /// Returns the attribute that holds a weight, such as `self.weight_0`; adds it if it is new.
  std::string weight(const WeightRef& weight);
  /// Returns the quoted name of a matrix, which begins its keys in `m`.
  static std::string matrix(const MatrixRef& matrix) { return '"' + to_string(matrix) + '"'; }
  /// Returns a number as a literal of type float.
  static std::string number(double value);
  /// Returns an expression that multiplies negative numbers of `text` by `slope`; `text` itself if `slope` is 1.
  std::string activated(const std::string& text, double slope);
  /// Adds the text of methods to the module; the same text is added once.
  void helper(const char* methods) { helpers_.insert(methods); }
  /// Adds the methods rows_of, product and maxima, which sum or maximise over the entries of a sparse matrix's rows.
  void sparse_helpers();

  Value result;  // result of the operation that is being written

  /// Returns the text of all added methods.
  std::string helpers() const;
  /// Returns the map from attributes, without `self.`, to names of weights.
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

 private:
  std::set<std::string_view> helpers_;
  std::map<std::string, std::string> attributes_;
};

}  // namespace foretime::inference
