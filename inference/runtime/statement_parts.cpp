#include "inference/runtime/statement_parts.h"

#include <span>

namespace foretime::inference {
namespace {

using Columns = data::LoopColumns;

/// Rows of a matrix in runs, as the matrix that collects each run: for sums, maxima and picks.
class Runs {
 public:
  void add(int32_t row) { rows_.push_back(row); }
  void close() { ends_.push_back(static_cast<int64_t>(rows_.size())); }
  int64_t in_last() const { return static_cast<int64_t>(rows_.size()) - ends_.back(); }
  plans::CsrMatrix matrix(int64_t all_rows) && {
    plans::CsrMatrix result;
    result.rows = static_cast<int64_t>(ends_.size()) - 1;
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
  if (feature_count != Columns::count)
    throw DataError("message plan: its graphs are no loop graphs, expected data.representation loops");
  const auto is = [&](int64_t node, int64_t column) { return node_features[node * feature_count + column] > 0.5F; };
  StatementParts result;
  std::vector<int32_t> statement_of(static_cast<size_t>(nodes), -1);
  Runs loops_of, innermost, second;
  std::array<Runs, Columns::kSlots> slots;
  size_t accesses = 0;
  const auto close = [&] {
    for (Runs* runs : {&loops_of, &innermost, &second}) runs->close();
    for (Runs& slot : slots) slot.close();
  };
  for (int64_t i = 0; i < nodes; ++i) {
    const auto node = static_cast<int32_t>(i);
    if (is(i, Columns::statement)) {
      if (!result.statements.empty()) close();
      result.statements.push_back(node);
      accesses = 0;
    } else if (result.statements.empty()) {
      throw DataError("message plan: its graphs do not start with a statement, expected data.representation loops");
    } else if (is(i, Columns::loop)) {
      const auto loop = static_cast<int32_t>(result.loops.size());
      if (loops_of.in_last() == 0) innermost.add(loop);
      if (loops_of.in_last() == 1) second.add(loop);
      loops_of.add(loop);
      result.loops.push_back(node);
    } else if (is(i, Columns::access) && accesses < slots.size()) {
      slots[accesses++].add(node);
    }
    statement_of[static_cast<size_t>(i)] = static_cast<int32_t>(result.statements.size()) - 1;
  }
  if (!result.statements.empty()) close();
  const auto loop_count = static_cast<int64_t>(result.loops.size());
  result.loops_of = std::move(loops_of).matrix(loop_count);
  result.innermost = std::move(innermost).matrix(loop_count);
  result.second = std::move(second).matrix(loop_count);
  for (size_t i = 0; i < slots.size(); ++i) result.accesses[i] = std::move(slots[i]).matrix(nodes);
  Runs statements_of;
  for (size_t row = 0; row + 1 < row_ptr.size(); ++row) {
    for (int64_t i = row_ptr[row]; i < row_ptr[row + 1]; ++i) {
      const int32_t node = columns[static_cast<size_t>(i)];
      if (is(node, Columns::statement)) statements_of.add(statement_of[static_cast<size_t>(node)]);
    }
    statements_of.close();
  }
  result.statements_of = std::move(statements_of).matrix(static_cast<int64_t>(result.statements.size()));
  return result;
}

StatementParts statement_parts(const plans::MessagePlan& plan) {
  if (plan.readout.nodes.stages.size() != 1)
    throw DataError("message plan: a readout in stages, expected program data");
  const auto& nodes_of = plan.readout.nodes.stages.front();
  return statement_parts(plan.node_features.data(), plan.nodes(), plan.feature_count, nodes_of.row_ptr,
                         nodes_of.columns);
}

}  // namespace foretime::inference
