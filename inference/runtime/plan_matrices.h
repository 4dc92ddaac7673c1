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

/// Which nodes of a batch of loop graphs (data/program/loop_graph.h) belong to which statement, and which statements to
/// which program. All values of the matrices are 1.
struct StatementParts {
  std::vector<int32_t> statements, loops;  // their nodes
  plans::CsrMatrix loops_of;               // [statements, loops], from the innermost outwards
  plans::CsrMatrix innermost,
      second;  // [statements, loops]: the innermost loop, and the one around it, where there are
  std::array<plans::CsrMatrix, data::LoopColumns::kSlots>
      accesses;                    // [statements, nodes]: the first accesses, the store first
  plans::CsrMatrix statements_of;  // [candidates, statements]
};

/// Throws data::DataError where the plan's graphs are no loop graphs.
StatementParts statement_parts(const plans::MessagePlan& plan);

/// From its parts: node_features [nodes, feature_count], and the entries of [candidates, nodes].
StatementParts statement_parts(const float* node_features, int64_t nodes, int64_t feature_count,
                               std::span<const int64_t> row_ptr, std::span<const int32_t> columns);

/// A sparse matrix as kernels take it. It may borrow from a plan.
struct SparseMatrix {
  enum class Kind : uint8_t { csr, gather, identity, zero };  // gather: one entry of value 1 a row
  Kind kind = Kind::csr;
  int64_t rows = 0, columns = 0;
  const int64_t* row_ptr = nullptr;        // [rows + 1], null for a gather
  const int32_t* column_of = nullptr;      // [entries]
  const float* values = nullptr;           // [entries], null: all 1
  std::shared_ptr<const void> owner = {};  // of what is not the plan's

  int64_t entries() const {
    if (kind == Kind::csr) return row_ptr[rows];
    return kind == Kind::gather ? rows : 0;
  }
};

/// Sums over nodes, in stages.
struct Pool {
  std::vector<const SparseMatrix*> stages;
  std::vector<float> counts;  // [rows of the last stage] sums of the entries of its rows, through all stages
};

/// The sparse matrices of a message plan (references.h). Each is made when it is first asked for. Borrows the plan. Not
/// to be used by several threads at once.
class PlanMatrices {
 public:
  PlanMatrices(const plans::MessagePlan& plan, bool statements);

  /// Throws BundleError for a matrix that the plan does not have.
  const SparseMatrix& matrix(const MatrixRef& name);
  /// A pool; a plain matrix is a pool of one stage.
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
