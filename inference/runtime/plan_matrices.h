#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/frontends/loops/loop_columns.h"
#include "inference/runtime/references.h"
#include "plans/message_plan.h"

namespace foretime::inference {

/// Assigns the nodes of a batch of loop graphs (data/frontends/loops/loop_graph.h) to statements, and statements to
/// programs. All values of the matrices are 1.
struct StatementParts {
  std::vector<int32_t> statements, loops;  // node of each statement and of each loop
  plans::CsrMatrix loops_of;               // [statements, loops], from the innermost outwards
  plans::CsrMatrix innermost, second;      // [statements, loops]: the innermost loop and the loop around it, if present
  // [slot][statements, nodes]: the first accesses of a statement, its store first
  std::array<plans::CsrMatrix, data::LoopColumns::kSlots> accesses;
  plans::CsrMatrix statements_of;  // [candidates, statements]
};

/// Returns the statements of a plan of loop graphs. Throws data::DataError if the graphs are not loop graphs.
StatementParts statement_parts(const plans::MessagePlan& plan);

/// Returns the statements of loop graphs given by node_features [nodes, feature_count] and the matrix [candidates,
/// nodes].
StatementParts statement_parts(const float* node_features, int64_t nodes, int64_t feature_count,
                               std::span<const int64_t> row_ptr, std::span<const int32_t> columns);

/// Holds a sparse matrix in the form of the kernels. It may borrow from a plan.
struct SparseMatrix {
  enum class Kind : uint8_t { csr, gather, identity, zero };  // gather: one entry of value 1 a row
  Kind kind = Kind::csr;
  int64_t rows = 0, columns = 0;
  const int64_t* row_ptr = nullptr;        // [rows + 1]; null for a gather
  const int32_t* column_of = nullptr;      // [entries]
  const float* values = nullptr;           // [entries], null: all 1
  std::shared_ptr<const void> owner = {};  // owns arrays that are not the plan's

  int64_t entries() const {
    if (kind == Kind::csr) return row_ptr[rows];
    return kind == Kind::gather ? rows : 0;
  }
};

/// Holds sums over nodes, in stages.
struct Pool {
  std::vector<const SparseMatrix*> stages;
  std::vector<float> counts;  // [rows of the last stage] sums of their entries, through all stages
};

/// Makes the sparse matrices of a message plan (references.h) at the first request. Borrows the plan. Not thread-safe.
class PlanMatrices {
 public:
  PlanMatrices(const plans::MessagePlan& plan, bool statements);

  /// Returns a matrix. Throws BundleError if the plan does not have it.
  const SparseMatrix& matrix(const MatrixRef& name);
  /// Returns the pool of this name, or a pool whose one stage is the matrix of this name. Throws BundleError if the
  /// plan has neither.
  const Pool& pool(const MatrixRef& name);
  /// Adds a matrix that an operation has made.
  void add(const MatrixRef& name, SparseMatrix matrix);

  const plans::MessagePlan& plan() const { return plan_; }

 private:
  SparseMatrix make(const MatrixRef& name);

  const plans::MessagePlan& plan_;
  std::optional<StatementParts> parts_;
  std::map<MatrixRef, SparseMatrix> matrices_;
  std::vector<std::unique_ptr<SparseMatrix>> stages_;
  std::map<MatrixRef, Pool> pools_;
};

}  // namespace foretime::inference
