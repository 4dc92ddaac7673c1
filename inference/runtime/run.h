#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inference/kernels/matrix.h"
#include "inference/runtime/plan_matrices.h"
#include "inference/runtime/references.h"
#include "inference/runtime/weights.h"

namespace foretime::inference {

/// One pass through a list of operations, as their kernels see it. Widths have been checked (graph.h); numbers of rows
/// depend on the plan, and are the kernels' to check: they throw BundleErrors that name the operation.
class Run {
 public:
  /// `matrices`: of the plan, null for a list that has no messages; `group_ptr`: for operations over groups.
  Run(std::span<const Weight* const> weights, PlanMatrices* matrices, std::span<const int64_t> group_ptr, size_t nodes,
      Workspace& workspace)
      : weights_(weights),
        matrices_(matrices),
        group_ptr_(group_ptr),
        workspace_(workspace),
        values_(kInputs + nodes) {}

  Matrix& at(Value value) { return values_[static_cast<size_t>(value.id)]; }
  const Matrix& in(Value value) const { return values_[static_cast<size_t>(value.id)]; }
  const Weight& table(const WeightRef& weight) const { return *weights_[static_cast<size_t>(weight.slot)]; }
  /// Null where the operation goes without it.
  const float* vector(const WeightRef& weight) const {
    return weight.defined() ? table(weight).values.data() : nullptr;
  }
  /// A matrix of so many columns.
  const SparseMatrix& matrix(const MatrixRef& name, int64_t columns) const;
  const SparseMatrix& matrix(const MatrixRef& name) const { return matrices_->matrix(name); }
  const Pool& pool(const MatrixRef& name) const { return matrices_->pool(name); }
  void add(const MatrixRef& name, SparseMatrix matrix) const { matrices_->add(name, std::move(matrix)); }
  std::span<const int64_t> group_ptr() const { return group_ptr_; }

  /// A matrix without values.
  Matrix made(int64_t rows, int64_t columns) const { return {rows, columns, taken(rows * columns)}; }
  std::vector<float> taken(int64_t count) const { return workspace_.take(static_cast<size_t>(count)); }
  void give(std::vector<float>&& buffer) const { workspace_.give(std::move(buffer)); }

  void expect_rows(int64_t found, int64_t expected) const;
  [[noreturn]] void fail(const std::string& what) const;

  /// The operation that runs, for messages: its result and its name.
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

}  // namespace foretime::inference
