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

/// The view that operations have of their graph: its widths when it is checked, its values when it runs, and the
/// TorchScript that is generated from it.
namespace foretime::inference {

inline constexpr int64_t kWidest = 1 << 20;  // limit of columns of a value, far above any model

/// Computes the columns of a graph's values by shape rules. All errors are BundleErrors that name the operation.
class Widths {
 public:
  /// `list` is embed or score, for messages. Only operations of `score` see whole groups, only those of `embed`
  /// matrices.
  Widths(const char* list, bool groups, const WeightShapes& weights)
      : list_(list), groups_(groups), weights_(weights) {}

  /// Sets the columns of an input.
  void provide(Value input, int64_t columns);
  /// Sets the name of the next operation, for messages.
  void begin(const char* operation) { operation_ = operation; }
  /// Adds the columns of the next operation's result.
  void add(int64_t columns);

  /// Returns the columns of a value.
  int64_t of(Value value) const;
  bool groups() const { return groups_; }
  /// Returns {rows, columns} of a weight with two dimensions.
  std::pair<int64_t, int64_t> table(const WeightRef& weight) const;
  /// Throws unless a weight is a vector of this length.
  void vector(const WeightRef& weight, int64_t length) const;
  /// Returns the length of a weight with one dimension.
  int64_t length(const WeightRef& weight) const;
  void optional_vector(const WeightRef& weight, int64_t length) const {
    if (weight.defined()) vector(weight, length);
  }
  /// Throws unless operations of this list may use the matrix.
  void matrix(const MatrixRef& matrix) const;
  void expect(bool condition, const char* what, auto found, auto expected) const {
    if (!condition) fail(fmt::format("{}: {}, expected {}", what, found, expected));
  }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const std::vector<int64_t>& shape(const WeightRef& weight) const;

  const char* list_;
  bool groups_;
  const WeightShapes& weights_;
  const char* operation_ = "";
  int64_t inputs_[kInputs] = {-1, -1, -1, -1};
  std::vector<int64_t> columns_;  // [nodes so far]
};

/// Holds the values of one pass through a list of operations, for their kernels. Widths have been checked (graph.h);
/// numbers of rows depend on the plan, and kernels check them: they throw BundleErrors that name the operation.
class Run {
 public:
  /// `matrices` belongs to the plan, null for a list without messages; `group_ptr` serves operations over groups.
  Run(std::span<const Weight* const> weights, PlanMatrices* matrices, std::span<const int64_t> group_ptr, size_t nodes,
      Workspace& workspace)
      : weights_(weights),
        matrices_(matrices),
        group_ptr_(group_ptr),
        workspace_(workspace),
        values_(kInputs + nodes) {}

  Matrix& at(Value value) { return values_[value.id]; }
  const Matrix& in(Value value) const { return values_[value.id]; }
  const Weight& table(const WeightRef& weight) const { return *weights_[weight.slot]; }
  /// Returns a vector weight; null if the operation has none.
  const float* vector(const WeightRef& weight) const {
    return weight.defined() ? table(weight).values.data() : nullptr;
  }
  /// Returns a matrix; throws BundleError unless it has `columns` columns.
  const SparseMatrix& matrix(const MatrixRef& name, int64_t columns) const;
  const SparseMatrix& matrix(const MatrixRef& name) const { return matrices_->matrix(name); }
  const Pool& pool(const MatrixRef& name) const { return matrices_->pool(name); }
  void add(const MatrixRef& name, SparseMatrix matrix) const { matrices_->add(name, std::move(matrix)); }
  std::span<const int64_t> group_ptr() const { return group_ptr_; }

  /// Returns an uninitialised matrix.
  Matrix made(int64_t rows, int64_t columns) const { return {rows, columns, taken(rows * columns)}; }
  std::vector<float> taken(int64_t count) const { return workspace_.take(count); }
  void give(std::vector<float>&& buffer) const { workspace_.give(std::move(buffer)); }

  /// Throws unless a number of rows is as expected.
  void expect_rows(int64_t found, int64_t expected) const;
  [[noreturn]] void fail(const std::string& what) const;

  /// Sets the result and name of the running operation, for messages.
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

/// Writes operations as expressions of TorchScript. In methods, `m` is the dictionary of the plan's arrays.
class ScriptWriter {
 public:
  static std::string value(Value value) { return to_string(value); }
  /// Returns the attribute that holds a weight.
  std::string weight(const WeightRef& weight);
  static std::string matrix(const MatrixRef& matrix) { return '"' + to_string(matrix) + '"'; }
  /// Returns a number as TorchScript.
  static std::string number(double value);
  /// Returns `text` with negative numbers multiplied by `slope`; `text` itself if it is 1.
  std::string activated(const std::string& text, double slope);
  /// Adds methods to the module; repeated calls have no effect.
  void helper(const char* methods) { helpers_.insert(methods); }
  /// Adds the methods rows_of, product and maxima for the rows of a sparse matrix.
  void sparse_helpers();

  Value result;  // result of the operation that is being written

  /// Returns the text of all added methods.
  std::string helpers() const;
  /// Returns {attribute: name of the weight}.
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

 private:
  std::set<std::string_view> helpers_;
  std::map<std::string, std::string> attributes_;
};

}  // namespace foretime::inference
