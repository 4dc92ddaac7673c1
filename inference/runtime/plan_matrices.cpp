#include "inference/runtime/plan_matrices.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/index_range.h"

namespace foretime::inference {
namespace {

using Kind = SparseMatrix::Kind;

SparseMatrix gather(const std::vector<int32_t>& index, int64_t columns) {
  return {.kind = Kind::gather, .rows = std::ssize(index), .columns = columns, .column_of = index.data()};
}

SparseMatrix owned_gather(std::vector<int32_t> index, int64_t columns) {
  const auto kept = std::make_shared<const std::vector<int32_t>>(std::move(index));
  auto result = gather(*kept, columns);
  result.owner = kept;
  return result;
}

SparseMatrix csr(const plans::CsrMatrix& source) {
  SparseMatrix result{.rows = source.rows,
                      .columns = source.cols,
                      .row_ptr = source.row_ptr.data(),
                      .column_of = source.columns.data()};
  if (std::any_of(source.values.begin(), source.values.end(), [](double value) { return value != 1.0; })) {
    const auto kept = std::make_shared<const std::vector<float>>(source.values.begin(), source.values.end());
    result.values = kept->data();
    result.owner = kept;
  }
  return result;
}

/// [nodes, nodes] D^-½ A D^-½ of a symmetric A with an entry in each row.
SparseMatrix normalized(const SparseMatrix& matrix) {
  auto values = std::make_shared<std::vector<float>>();
  std::vector<float> root(matrix.rows);
  const auto value = [&](int64_t e) { return matrix.values ? matrix.values[e] : 1.0F; };
  for (int64_t r = 0; r < matrix.rows; ++r) {
    float degree = 0.0F;
    for (const int64_t e : entries_of(matrix.row_ptr, r)) degree += value(e);
    root[r] = 1.0F / std::sqrt(degree);
  }
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (const int64_t e : entries_of(matrix.row_ptr, r))
      values->push_back(value(e) * root[r] * root[matrix.column_of[e]]);
  auto result = matrix;
  result.values = values->data();
  result.owner =
      std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(matrix.owner, values);
  return result;
}

/// The row of each column, where each column has one entry.
std::vector<int32_t> row_of_columns(const plans::CsrMatrix& of, int64_t columns) {
  std::vector<int32_t> rows(columns, -1);
  for (int64_t row = 0; row < of.rows; ++row)
    for (const int64_t e : entries_of(of.row_ptr, row)) rows[of.columns[e]] = row;
  return rows;
}

using Columns = data::LoopColumns;

/// Rows of a matrix in runs, as the matrix that collects each run: for sums, maxima and picks.
class Runs {
 public:
  void add(int32_t row) { rows_.push_back(row); }
  void close() { ends_.push_back(rows_.size()); }
  int64_t in_last() const { return std::ssize(rows_) - ends_.back(); }
  plans::CsrMatrix matrix(int64_t all_rows) && {
    plans::CsrMatrix result;
    result.rows = std::ssize(ends_) - 1;
    result.cols = all_rows;
    result.values.assign(rows_.size(), 1.0);
    result.row_ptr = std::move(ends_);
    result.columns = std::move(rows_);
    return result;
  }

 private:
  std::vector<int32_t> rows_;
  std::vector<int64_t> ends_ = {0};
};

}  // namespace

StatementParts statement_parts(const float* node_features, int64_t nodes, int64_t feature_count,
                               std::span<const int64_t> row_ptr, std::span<const int32_t> columns) {
  if (!data::are_loop_columns(feature_count))
    throw BundleError("message plan: {} features a node, expected those of data.representation loops", feature_count);
  const auto is = [&](int64_t node, int64_t column) { return node_features[node * feature_count + column] > 0.5F; };
  StatementParts result;
  std::vector<int32_t> statement_of(nodes, -1);
  Runs loops_of, innermost, second;
  std::array<Runs, Columns::kSlots> slots;
  size_t accesses = 0;
  const auto close = [&] {
    for (Runs* runs : {&loops_of, &innermost, &second}) runs->close();
    for (Runs& slot : slots) slot.close();
  };
  for (int64_t i = 0; i < nodes; ++i) {
    const int32_t node = i;
    if (is(i, Columns::statement)) {
      if (!result.statements.empty()) close();
      result.statements.push_back(node);
      accesses = 0;
    } else if (result.statements.empty()) {
      throw DataError("message plan: its graphs do not start with a statement, expected data.representation loops");
    } else if (is(i, Columns::loop)) {
      const int32_t loop = result.loops.size();
      if (loops_of.in_last() == 0) innermost.add(loop);
      if (loops_of.in_last() == 1) second.add(loop);
      loops_of.add(loop);
      result.loops.push_back(node);
    } else if (is(i, Columns::access) && accesses < slots.size()) {
      slots[accesses++].add(node);
    }
    statement_of[i] = std::ssize(result.statements) - 1;
  }
  if (!result.statements.empty()) close();
  const auto loop_count = std::ssize(result.loops);
  result.loops_of = std::move(loops_of).matrix(loop_count);
  result.innermost = std::move(innermost).matrix(loop_count);
  result.second = std::move(second).matrix(loop_count);
  for (size_t i = 0; i < slots.size(); ++i) result.accesses[i] = std::move(slots[i]).matrix(nodes);
  Runs statements_of;
  for (size_t row = 0; row + 1 < row_ptr.size(); ++row) {
    for (const int64_t i : entries_of(row_ptr, row)) {
      const int32_t node = columns[i];
      if (is(node, Columns::statement)) statements_of.add(statement_of[node]);
    }
    statements_of.close();
  }
  result.statements_of = std::move(statements_of).matrix(result.statements.size());
  return result;
}

StatementParts statement_parts(const plans::MessagePlan& plan) {
  if (plan.readout.nodes.stages.size() != 1) throw BundleError("message plan: expected programs, found other data");
  const auto& nodes_of = plan.readout.nodes.stages.front();
  return statement_parts(plan.node_features.data(), plan.nodes(), plan.feature_count, nodes_of.row_ptr,
                         nodes_of.columns);
}

PlanMatrices::PlanMatrices(const plans::MessagePlan& plan, bool statements) : plan_(plan) {
  if (statements) parts_ = statement_parts(plan);
}

const SparseMatrix& PlanMatrices::matrix(const MatrixRef& name) {
  const auto found = matrices_.find(name);
  if (found != matrices_.end()) return found->second;
  auto made = make(name);
  return matrices_.emplace(name, std::move(made)).first->second;
}

void PlanMatrices::add(const MatrixRef& name, SparseMatrix matrix) {
  matrices_.insert_or_assign(name, std::move(matrix));
}

const Pool& PlanMatrices::pool(const MatrixRef& name) {
  const auto found = pools_.find(name);
  if (found != pools_.end()) return found->second;
  Pool result;
  const auto stages = [&](const plans::PlanPool& source) {
    for (const auto& stage : source.stages) {
      stages_.push_back(std::make_unique<SparseMatrix>(csr(stage)));
      result.stages.push_back(stages_.back().get());
    }
    if (source.stages.empty()) throw BundleError("message plan: pool {}: no stages", to_string(name));
  };
  if (name.kind == MatrixRef::Kind::nodes) stages(plan_.readout.nodes);
  else if (name.kind == MatrixRef::Kind::configurable) stages(plan_.readout.configurable);
  else if (name.kind == MatrixRef::Kind::tied) stages(plan_.readout.tied);
  else result.stages.push_back(&matrix(name));
  for (const SparseMatrix* stage : result.stages) {
    std::vector<double> sums(stage->rows);
    for (size_t r = 0; r < sums.size(); ++r) {
      const int64_t first = stage->row_ptr ? stage->row_ptr[r] : static_cast<int64_t>(r);
      const int64_t last = stage->row_ptr ? stage->row_ptr[r + 1] : first + 1;
      for (int64_t e = first; e < last; ++e) {
        const double factor = result.counts.empty() ? 1.0 : result.counts[stage->column_of[e]];
        sums[r] += (stage->values ? stage->values[e] : 1.0) * factor;
      }
    }
    result.counts.assign(sums.begin(), sums.end());
  }
  return pools_.emplace(name, std::move(result)).first->second;
}

SparseMatrix PlanMatrices::make(const MatrixRef& name) {
  using Ref = MatrixRef::Kind;
  const auto missing = [&]() -> SparseMatrix {
    throw BundleError("graph: matrix '{}': not in the message plan", to_string(name));
  };
  const auto types = [](const std::vector<uint8_t>& of_nodes, int64_t count) {
    return owned_gather(std::vector<int32_t>(of_nodes.begin(), of_nodes.end()), count);
  };
  const size_t at = name.at;
  const bool has_level = name.at >= 0 && at < plan_.levels.size(), has_layer = name.at >= 0 && at < plan_.layers.size();
  switch (name.kind) {
    case Ref::node_types: return types(plan_.node_types, 256);
    case Ref::collections:
      return plan_.node_collections.empty() ? missing() : types(plan_.node_collections, data::kCollections);
    case Ref::level_node: return has_level ? gather(plan_.levels[at]->node, plan_.nodes()) : missing();
    case Ref::level_layout_row: {
      if (!has_level) return missing();
      const auto rows = std::ssize(plan_.layout_rows) / data::kLayoutFeatures;
      const auto& level = *plan_.levels[at];
      if (!level.layout_row.empty()) return gather(level.layout_row, rows);
      return {.kind = Kind::zero, .rows = level.states(), .columns = std::max<int64_t>(1, rows)};
    }
    case Ref::level_candidate:
      return has_level && !plan_.levels[at]->candidate.empty() ? gather(plan_.levels[at]->candidate, plan_.candidates())
                                                               : missing();
    case Ref::relation:
      return has_layer && name.relation >= 0 && name.relation < std::ssize(plan_.layers[at]->relations)
                 ? csr(plan_.layers[at]->relations[name.relation])
                 : missing();
    case Ref::self: {
      if (!has_layer) return missing();
      const int64_t below = plan_.levels[at]->states();
      if (plan_.layers[at]->keeps_states(below)) return {.kind = Kind::identity, .rows = below, .columns = below};
      return gather(plan_.layers[at]->self, below);
    }
    case Ref::nodes:
    case Ref::configurable:
    case Ref::tied: {
      const auto& stages = pool(name).stages;
      return stages.size() == 1 ? *stages.front() : missing();
    }
    case Ref::candidate_of: {
      const auto& of = plan_.readout.nodes.stages.front();
      auto candidate = row_of_columns(of, of.cols);
      if (plan_.readout.nodes.stages.size() > 1 || of.columns.size() != candidate.size() ||
          std::find(candidate.begin(), candidate.end(), -1) != candidate.end())
        throw BundleError("message plan: candidates share states, expected a state for each node and candidate");
      return owned_gather(std::move(candidate), of.rows);
    }
    case Ref::adjacency: return name.at < 0 ? matrix({.kind = Ref::relation}) : missing();
    case Ref::normalized_adjacency: {
      const auto& adjacency = matrix({.kind = Ref::adjacency, .at = name.at});
      return adjacency.kind == Kind::csr && adjacency.rows == adjacency.columns ? normalized(adjacency) : missing();
    }
    case Ref::kept_nodes: return name.at < 0 ? matrix({.kind = Ref::nodes}) : missing();
    default: break;
  }
  if (!parts_) return missing();
  switch (name.kind) {
    case Ref::statements: return gather(parts_->statements, plan_.nodes());
    case Ref::loops: return gather(parts_->loops, plan_.nodes());
    case Ref::loops_of: return csr(parts_->loops_of);
    case Ref::innermost: return csr(parts_->innermost);
    case Ref::second: return csr(parts_->second);
    case Ref::access: return name.at >= 0 && at < parts_->accesses.size() ? csr(parts_->accesses[at]) : missing();
    case Ref::statements_of: return csr(parts_->statements_of);
    case Ref::program_of: {
      const auto& of = parts_->statements_of;
      return owned_gather(row_of_columns(of, parts_->statements.size()), of.rows);
    }
    default: return missing();
  }
}

}  // namespace foretime::inference
