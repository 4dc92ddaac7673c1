#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inference/graph/executor.h"
#include "inference/graph/plan_matrices.h"

namespace foretime::inference {

/// One pass through a list. What each operation means is in inference/form.h.
class Executor::Run {
 public:
  /// `matrices`: of the plan, null for a list that has no messages; `group_ptr`: for operations over groups.
  Run(const List& list, PlanMatrices* matrices, std::span<const int64_t> group_ptr, Workspace& workspace)
      : list_(list), matrices_(matrices), group_ptr_(group_ptr), workspace_(workspace), values_(list.slots.size()) {}

  /// An input of the list; one that it does not use is dropped.
  void provide(const std::string& name, Matrix value);
  Matrix run();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void expect_rows(int64_t found, int64_t expected) const;
  const Matrix& input(size_t i) const { return values_[step_->inputs[i]]; }
  const float* weight(size_t i) const {
    return i < step_->weights.size() && step_->weights[i] ? step_->weights[i]->values.data() : nullptr;
  }
  float number(const char* name, double otherwise) const {
    return static_cast<float>(step_->operation->number(name, otherwise));
  }
  float slope() const { return number("slope", 1.0); }
  Matrix made(int64_t rows, int64_t columns) const {
    return {rows, columns, workspace_.take(static_cast<size_t>(rows * columns))};
  }
  const SparseMatrix& matrix(size_t i, int64_t columns) const;

  Matrix evaluate(const Operation& o) const;

  // Of each row, or of rows of one group (executor_rows.cpp)
  Matrix dense() const;
  Matrix add(const Operation& o) const;
  Matrix multiply() const;
  Matrix activate(const Operation& o) const;
  Matrix join(const Operation& o) const;
  Matrix select(const Operation& o) const;
  Matrix transform() const;
  Matrix normalize(const Operation& o) const;
  Matrix codes() const;
  Matrix group(const Operation& o) const;

  // Along the edges of the plan (executor_edges.cpp)
  /// Adds up terms; those without entries are left out.
  Matrix sum(const std::vector<std::pair<const SparseMatrix*, const float*>>& terms, int64_t rows, int64_t width,
             const float* bias, float slope) const;
  Matrix csr_sum(const Operation& o) const;
  Matrix csr_max(const SparseMatrix& m, const Matrix& x) const;
  Matrix pool(const Operation& o) const;
  Matrix lookup() const;
  Matrix attention(const Operation& o) const;
  Matrix top_nodes(const Operation& o) const;

  const List& list_;
  PlanMatrices* matrices_;
  std::span<const int64_t> group_ptr_;
  Workspace& workspace_;
  std::vector<Matrix> values_;
  const Step* step_ = nullptr;
};

}  // namespace foretime::inference
