#include "data/topology.h"

#include <cmath>

namespace foretime::data {
namespace {

/// Entries grouped by column in `begin`/`rows`, so that reading them in order and appending to rows sorts each row by
/// column.
struct ByColumn {
  std::vector<int64_t> begin;
  std::vector<int32_t> rows;
};

template <class Visit>
void for_each_entry(int64_t first, std::span<const int32_t> sources, std::span<const int32_t> targets,
                    Direction direction, Visit&& visit) {
  const auto base = static_cast<int32_t>(first);
  if (direction != Direction::out) {
    for (size_t e = 0; e < sources.size(); ++e) visit(targets[e] - base, sources[e] - base);
  }
  if (direction != Direction::in) {
    for (size_t e = 0; e < sources.size(); ++e) visit(sources[e] - base, targets[e] - base);
  }
}

void counts_to_starts(std::vector<int64_t>& counts) {
  for (size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
}

double entry_weight(EdgeNorm norm, int64_t received, int64_t sent) {
  switch (norm) {
    case EdgeNorm::sum:
      return 1.0;
    case EdgeNorm::mean:
      return 1.0 / static_cast<double>(received);
    case EdgeNorm::symmetric:
      return 1.0 / std::sqrt(static_cast<double>(received) * static_cast<double>(sent));
  }
  return 0.0;
}

}  // namespace

CsrMatrix relation_matrix(int64_t first_node, int64_t nodes, std::span<const int32_t> sources,
                          std::span<const int32_t> targets, const RelationSpec& relation) {
  const auto n = static_cast<size_t>(nodes);
  const int64_t loop = relation.self_loop ? 1 : 0;
  std::vector<int64_t> row_start(n + 1, loop);
  ByColumn by_column{std::vector<int64_t>(n + 1, loop), {}};
  row_start[0] = by_column.begin[0] = 0;
  for_each_entry(first_node, sources, targets, relation.direction, [&](int32_t row, int32_t column) {
    ++row_start[static_cast<size_t>(row) + 1];
    ++by_column.begin[static_cast<size_t>(column) + 1];
  });
  counts_to_starts(row_start);
  counts_to_starts(by_column.begin);

  const auto entries = static_cast<size_t>(row_start[n]);
  by_column.rows.resize(entries);
  std::vector<int64_t> next(by_column.begin.begin(), by_column.begin.end() - 1);
  for_each_entry(first_node, sources, targets, relation.direction, [&](int32_t row, int32_t column) {
    by_column.rows[static_cast<size_t>(next[static_cast<size_t>(column)]++)] = row;
  });
  if (relation.self_loop) {
    for (size_t v = 0; v < n; ++v) by_column.rows[static_cast<size_t>(next[v]++)] = static_cast<int32_t>(v);
  }

  // Equal columns of a row arrive one after the other, so merging looks at the row's last entry only.
  std::vector<int32_t> columns(entries);
  std::vector<double> values(entries);
  next.assign(row_start.begin(), row_start.end() - 1);
  for (size_t u = 0; u < n; ++u) {
    const int64_t sent = by_column.begin[u + 1] - by_column.begin[u];
    for (int64_t i = by_column.begin[u]; i < by_column.begin[u + 1]; ++i) {
      const auto v = static_cast<size_t>(by_column.rows[static_cast<size_t>(i)]);
      const double weight = entry_weight(relation.norm, row_start[v + 1] - row_start[v], sent);
      const int64_t at = next[v];
      if (at > row_start[v] && columns[static_cast<size_t>(at - 1)] == static_cast<int32_t>(u)) {
        values[static_cast<size_t>(at - 1)] += weight;
      } else {
        columns[static_cast<size_t>(at)] = static_cast<int32_t>(u);
        values[static_cast<size_t>(at)] = weight;
        ++next[v];
      }
    }
  }

  CsrMatrix matrix;
  matrix.rows = matrix.cols = nodes;
  matrix.row_ptr.reserve(n + 1);
  matrix.row_ptr.push_back(0);
  for (size_t v = 0; v < n; ++v) matrix.row_ptr.push_back(matrix.row_ptr.back() + next[v] - row_start[v]);
  if (matrix.row_ptr.back() == static_cast<int64_t>(entries)) {
    matrix.columns = std::move(columns);
    matrix.values = std::move(values);
    return matrix;
  }
  matrix.columns.reserve(static_cast<size_t>(matrix.row_ptr.back()));
  matrix.values.reserve(static_cast<size_t>(matrix.row_ptr.back()));
  for (size_t v = 0; v < n; ++v) {
    matrix.columns.insert(matrix.columns.end(), columns.begin() + row_start[v], columns.begin() + next[v]);
    matrix.values.insert(matrix.values.end(), values.begin() + row_start[v], values.begin() + next[v]);
  }
  return matrix;
}

std::shared_ptr<const GroupTopology> make_topology(const Group& group, const PlanRequest& request) {
  auto topology = std::make_shared<GroupTopology>();
  for (const RelationSpec& relation : request.relations) {
    topology->relations.push_back(relation_matrix(0, group.graphs.nodes(), group.graphs.edge_source.span(),
                                                  group.graphs.edge_target.span(), relation));
  }
  return topology;
}

}  // namespace foretime::data
