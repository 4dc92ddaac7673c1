#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inference/graph/statement_parts.h"
#include "plans/message_plan.h"

namespace foretime::inference {

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

/// The sparse matrices of a message plan by name:
///   node_types, collections                [nodes, types]: which type each node has
///   level.L.node, .layout_row, .candidate  [states of level L, nodes | rows of layout_rows | candidates]
///   layer.L.relation.R, layer.L.self       [states of level L + 1, states of level L]
///   nodes, configurable, tied              pools: [candidates, states of the last level], in stages
///   candidate_of                           the transpose of nodes, in plans without shared states
/// and of programs in statements (StatementParts)
///   statements, loops                      [statements | loops, nodes]
///   loops_of, innermost, second            [statements, loops]
///   access.0 … access.3                    [statements, nodes]
///   statements_of, program_of              [candidates, statements] and its transpose
/// Each is made when it is first asked for. Borrows the plan. Not to be used by several threads at once.
class PlanMatrices {
 public:
  PlanMatrices(const plans::MessagePlan& plan, bool statements);

  /// Throws BundleError for an unknown name.
  const SparseMatrix& matrix(const std::string& name);
  /// A pool; the name of a matrix is the pool of one stage.
  const Pool& pool(const std::string& name);
  /// Adds or replaces a matrix, or a pool of one stage, under a name.
  void add(const std::string& name, SparseMatrix matrix);

  const plans::MessagePlan& plan() const { return plan_; }

 private:
  SparseMatrix make(const std::string& name);

  const plans::MessagePlan& plan_;
  std::optional<StatementParts> parts_;
  std::map<std::string, std::unique_ptr<SparseMatrix>> matrices_;
  std::map<std::string, Pool> pools_;
};

}  // namespace foretime::inference
