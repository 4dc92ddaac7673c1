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

/// Assigns the nodes of a batch of loop graphs (data/frontends/loops/loop_graph.h) to statements, and the statements to
/// programs. All values of the matrices are 1.
struct StatementParts {
  std::vector<int32_t> statements, loops;  // [statements], [loops]: node ids, ascending
  plans::CsrMatrix loops_of;               // [statements, loops]: the loops around each statement, innermost first
  plans::CsrMatrix innermost, second;  // [statements, loops]: the innermost loop; the loop around it; empty row: none
  // accesses[i] [statements, nodes]: the i-th access of each statement, the store first; empty row: fewer accesses
  std::array<plans::CsrMatrix, data::LoopColumns::kSlots> accesses;
  plans::CsrMatrix statements_of;  // [candidates, statements]: the statements of each program
};

/// Returns the statements of a plan of loop graphs. Throws BundleError if the plan is not of programs or its nodes do
/// not have the columns of loop graphs. Throws DataError if the first node is no statement.
StatementParts statement_parts(const plans::MessagePlan& plan);

/// Returns the statements of loop graphs from node_features [nodes, feature_count] and the matrix [candidates, nodes]
/// given by `row_ptr` and `columns`. Throws as the other statement_parts for wrong columns or a wrong first node.
StatementParts statement_parts(const float* node_features, int64_t nodes, int64_t feature_count,
                               std::span<const int64_t> row_ptr, std::span<const int32_t> columns);

/// Holds a sparse matrix for kernels. Its arrays belong to `owner`, or to a plan that must live longer.
struct SparseMatrix {
  enum class Kind : uint8_t { csr, gather, identity, zero };  // gather: one entry of value 1 in each row
  Kind kind = Kind::csr;
  int64_t rows = 0, columns = 0;
  const int64_t* row_ptr = nullptr;        // [rows + 1] first entry of each row; null unless csr
  const int32_t* column_of = nullptr;      // [entries] column of each entry; null for identity and zero
  const float* values = nullptr;           // [entries] value of each entry; null: all values are 1
  std::shared_ptr<const void> owner = {};  // memory of those arrays that are not the plan's

  /// Returns the number of stored entries, which is 0 for identity and zero.
  int64_t entries() const {
    if (kind == Kind::csr) return row_ptr[rows];
    return kind == Kind::gather ? rows : 0;
  }
};

/// Describes sums over nodes as a product of matrices: stage 0 is applied to nodes, each later one to the one before.
struct Pool {
  std::vector<const SparseMatrix*> stages;
  std::vector<float> counts;  // [rows of the last stage] the sums for a value of 1 at every node
};

/// Makes the sparse matrices of a message plan (MatrixRef) at the first request. Borrows the plan. Not thread-safe.
class PlanMatrices {
 public:
  /// `statements` is true if matrices of StatementParts will be requested; throws as statement_parts does.
  PlanMatrices(const plans::MessagePlan& plan, bool statements);

  /// Returns a matrix, which is valid as long as this object. Throws BundleError if the plan does not have it.
  const SparseMatrix& matrix(const MatrixRef& name);
  /// Returns the pool of this name: nodes, configurable or tied. For any other name, returns a pool whose single stage
  /// is the matrix of this name. Throws BundleError if the plan has neither, or the pool has no stages.
  const Pool& pool(const MatrixRef& name);
  /// Adds a matrix that an operation has made; replaces a matrix of the same name.
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
