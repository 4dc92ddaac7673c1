#include <cmath>
#include <utility>

#include "plans/plan_source.h"

namespace foretime::plans {
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
    case EdgeNorm::sender:
      return 1.0 / static_cast<double>(sent);
    case EdgeNorm::symmetric:
    case EdgeNorm::laplacian:
    case EdgeNorm::laplacian_of_two:
      return 1.0 / std::sqrt(static_cast<double>(received) * static_cast<double>(sent));
  }
  return 0.0;
}

/// D^-½ A D^-½ → 2 / λ (I - D^-½ A D^-½) - I, λ of each row's graph.
CsrMatrix scaled_laplacian(const CsrMatrix& symmetric, std::span<const int64_t> graph_ptr) {
  const int64_t nodes = symmetric.rows;
  const std::vector<int64_t> whole = {0, nodes};
  if (graph_ptr.empty()) graph_ptr = whole;
  CsrMatrix result;
  result.rows = result.cols = nodes;
  result.row_ptr.push_back(0);
  for (size_t g = 0; g + 1 < graph_ptr.size(); ++g) {
    const int64_t first = graph_ptr[g] - graph_ptr.front(), last = graph_ptr[g + 1] - graph_ptr.front();
    const double scale = 2.0 / largest_laplacian_eigenvalue(symmetric, first, last);
    for (int64_t v = first; v < last; ++v) {
      bool placed = scale == 1.0;  // of λ = 2 no diagonal is left
      const auto place = [&] {
        result.columns.push_back(static_cast<int32_t>(v));
        result.values.push_back(scale - 1.0);
        placed = true;
      };
      for (auto e = static_cast<size_t>(symmetric.row_ptr[static_cast<size_t>(v)]);
           e < static_cast<size_t>(symmetric.row_ptr[static_cast<size_t>(v) + 1]); ++e) {
        if (!placed && symmetric.columns[e] >= v) place();
        const double value = -scale * symmetric.values[e];
        if (symmetric.columns[e] == v && scale != 1.0) {  // an edge from a node to itself: the diagonal stands there
          result.values.back() += value;
          continue;
        }
        result.columns.push_back(symmetric.columns[e]);
        result.values.push_back(value);
      }
      if (!placed) place();
      result.row_ptr.push_back(static_cast<int64_t>(result.columns.size()));
    }
  }
  return result;
}

}  // namespace

double largest_laplacian_eigenvalue(const CsrMatrix& symmetric, int64_t first, int64_t last) {
  constexpr int kMost = 200;
  constexpr double kClose = 1e-5;  // relative change between two steps
  const auto n = static_cast<size_t>(last - first);
  std::vector<double> x(n), y(n);
  // Any vector does that is not orthogonal to the eigenvector; this one has no symmetry that a graph could share.
  for (size_t i = 0; i < n; ++i) x[i] = 1.0 + std::sin(12.9898 * static_cast<double>(i + 1));
  const auto normalize = [](std::vector<double>& v) {
    double sum = 0;
    for (const double value : v) sum += value * value;
    for (double& value : v) value /= std::sqrt(sum);
  };
  if (n == 0) return 1.0;
  normalize(x);
  double eigenvalue = 0;
  for (int i = 0; i < kMost; ++i) {
    double rayleigh = 0;
    for (size_t v = 0; v < n; ++v) {
      double sum = x[v];
      const auto row = static_cast<size_t>(first) + v;
      for (auto e = static_cast<size_t>(symmetric.row_ptr[row]); e < static_cast<size_t>(symmetric.row_ptr[row + 1]);
           ++e)
        sum -= symmetric.values[e] * x[static_cast<size_t>(symmetric.columns[e] - first)];
      y[v] = sum;
      rayleigh += x[v] * sum;
    }
    const bool close = std::abs(rayleigh - eigenvalue) <= kClose * rayleigh;
    eigenvalue = rayleigh;
    if (close || eigenvalue <= 0) break;
    normalize(y);
    std::swap(x, y);
  }
  return eigenvalue > 0 ? eigenvalue : 1.0;
}

CsrMatrix relation_matrix(int64_t first_node, int64_t nodes, std::span<const int32_t> sources,
                          std::span<const int32_t> targets, const RelationSpec& relation,
                          std::span<const int64_t> graph_ptr) {
  const bool laplacian = relation.norm == EdgeNorm::laplacian || relation.norm == EdgeNorm::laplacian_of_two;
  if (laplacian) {
    if (relation.direction != Direction::both || relation.self_loop)
      throw DataError("message plan: a Laplacian of one direction or with self loops, expected of an undirected graph");
    auto symmetric =
        relation_matrix(first_node, nodes, sources, targets, {Direction::both, EdgeNorm::symmetric, false});
    if (relation.norm == EdgeNorm::laplacian) return scaled_laplacian(symmetric, graph_ptr);
    for (double& value : symmetric.values) value = -value;
    return symmetric;
  }
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

std::shared_ptr<const GroupTopology> make_topology(const data::Group& group, const PlanRequest& request) {
  auto topology = std::make_shared<GroupTopology>();
  for (const RelationSpec& relation : request.relations) {
    topology->relations.push_back(relation_matrix(0, group.graphs.nodes(), group.graphs.edge_source.span(),
                                                  group.graphs.edge_target.span(), relation,
                                                  group.graphs.graph_ptr.span()));
  }
  return topology;
}

}  // namespace foretime::plans
