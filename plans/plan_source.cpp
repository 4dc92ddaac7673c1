#include "plans/plan_source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index_range.h"
#include "data/files/packed.h"

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
  const int32_t base = first;
  if (direction != Direction::out)
    for (size_t e = 0; e < sources.size(); ++e) visit(targets[e] - base, sources[e] - base);
  if (direction != Direction::in)
    for (size_t e = 0; e < sources.size(); ++e) visit(sources[e] - base, targets[e] - base);
}

void counts_to_starts(std::vector<int64_t>& counts) {
  for (size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
}

double entry_weight(EdgeNorm norm, int64_t received, int64_t sent) {
  switch (norm) {
    case EdgeNorm::sum: return 1.0;
    case EdgeNorm::mean: return 1.0 / received;
    case EdgeNorm::sender: return 1.0 / sent;
    case EdgeNorm::symmetric: return 1.0 / std::sqrt(static_cast<double>(received) * sent);
    case EdgeNorm::laplacian_of_two: return -entry_weight(EdgeNorm::symmetric, received, sent);
  }
  return 0.0;
}

void check_subset(const data::Group& group, const NodeSubset& subset) {
  FORETIME_CHECK(group.kind == data::CandidateKind::layout, "{}: a subset of no layout graph", group.name);
  const int64_t nodes = group.graphs.nodes();
  const int64_t count = subset.nodes.empty() ? nodes : std::ssize(subset.nodes);
  for (size_t i = 0; i < subset.nodes.size(); ++i) {
    const int32_t v = subset.nodes[i];
    FORETIME_CHECK(v >= 0 && v < nodes && (i == 0 || v > subset.nodes[i - 1]),
                   "{}: node {} at position {} of a subset, expected ascending ids below {}", group.name, v, i, nodes);
  }
  FORETIME_CHECK(subset.pool.empty() || std::ssize(subset.pool) == count,
                 "{}: pools of {} nodes, expected one for each of {} nodes", group.name, subset.pool.size(), count);
  for (const int32_t pool : subset.pool)
    FORETIME_CHECK(pool >= 0 && pool < subset.pools, "{}: pool {}, expected below {}", group.name, pool, subset.pools);
}

constexpr int64_t kFirst = 4096;
constexpr int64_t kSharedPerState = 16;  // numbers per candidate that cost as much memory as a state
constexpr double kGrowth = 16;

}  // namespace

CsrMatrix relation_matrix(int64_t first_node, int64_t nodes, std::span<const int32_t> sources,
                          std::span<const int32_t> targets, const RelationSpec& relation) {
  FORETIME_CHECK(
      relation.norm != EdgeNorm::laplacian_of_two || (relation.direction == Direction::both && !relation.self_loop),
      "a relation with the norm of a Laplacian: expected direction both and no self loop");
  const size_t n = nodes;
  const int64_t loop = relation.self_loop ? 1 : 0;
  std::vector<int64_t> row_start(n + 1, loop);
  ByColumn by_column{std::vector<int64_t>(n + 1, loop), {}};
  row_start[0] = by_column.begin[0] = 0;
  for_each_entry(first_node, sources, targets, relation.direction, [&](int32_t row, int32_t column) {
    ++row_start[row + 1];
    ++by_column.begin[column + 1];
  });
  counts_to_starts(row_start);
  counts_to_starts(by_column.begin);

  const size_t entries = row_start[n];
  by_column.rows.resize(entries);
  std::vector<int64_t> next(by_column.begin.begin(), by_column.begin.end() - 1);
  for_each_entry(first_node, sources, targets, relation.direction,
                 [&](int32_t row, int32_t column) { by_column.rows[next[column]++] = row; });
  if (relation.self_loop)
    for (size_t v = 0; v < n; ++v) by_column.rows[next[v]++] = v;

  // Equal columns of a row arrive one after the other, so merging looks at the row's last entry only.
  std::vector<int32_t> columns(entries);
  std::vector<double> values(entries);
  next.assign(row_start.begin(), row_start.end() - 1);
  for (size_t u = 0; u < n; ++u) {
    const int64_t sent = by_column.begin[u + 1] - by_column.begin[u];
    for (const int64_t i : entries_of(by_column.begin, u)) {
      const size_t v = by_column.rows[i];
      const double weight = entry_weight(relation.norm, row_start[v + 1] - row_start[v], sent);
      const int64_t at = next[v];
      if (at > row_start[v] && std::cmp_equal(columns[at - 1], u)) {
        values[at - 1] += weight;
      } else {
        columns[at] = u;
        values[at] = weight;
        ++next[v];
      }
    }
  }

  CsrMatrix matrix;
  matrix.rows = matrix.cols = nodes;
  matrix.row_ptr.reserve(n + 1);
  matrix.row_ptr.push_back(0);
  for (size_t v = 0; v < n; ++v) matrix.row_ptr.push_back(matrix.row_ptr.back() + next[v] - row_start[v]);
  if (std::cmp_equal(matrix.row_ptr.back(), entries)) {
    matrix.columns = std::move(columns);
    matrix.values = std::move(values);
    return matrix;
  }
  matrix.columns.reserve(matrix.row_ptr.back());
  matrix.values.reserve(matrix.row_ptr.back());
  for (size_t v = 0; v < n; ++v) {
    matrix.columns.insert(matrix.columns.end(), columns.begin() + row_start[v], columns.begin() + next[v]);
    matrix.values.insert(matrix.values.end(), values.begin() + row_start[v], values.begin() + next[v]);
  }
  return matrix;
}

std::shared_ptr<const GroupTopology> make_topology(const data::Group& group, const PlanRequest& request) {
  auto topology = std::make_shared<GroupTopology>();
  for (const RelationSpec& relation : request.relations)
    topology->relations.push_back(relation_matrix(0, group.graphs.nodes(), group.graphs.edge_source.span(),
                                                  group.graphs.edge_target.span(), relation));
  return topology;
}

std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request) {
  auto source = std::make_shared<PlanSource>();
  source->request = request;
  if (group.kind == data::CandidateKind::layout && request.sharing != Sharing::none)
    source->symbolic = make_symbolic_plan(group, request, {});
  else source->topology = make_topology(group, request);
  return source;
}

std::shared_ptr<const PlanSource> prepare_plan_source(const data::Group& group, const PlanRequest& request) {
  if (group.kind != data::CandidateKind::layout || request.sharing == Sharing::none || request.tied) return nullptr;
  // Two rows a node: nodes of one row only do not vary.
  constexpr int64_t kRows = 2;
  data::Group any = group;
  const int64_t configurable = group.layout.configurable();
  std::vector<int64_t> row_ptr;
  for (int64_t j = 0; j <= configurable; ++j) row_ptr.push_back(j * kRows);
  any.layout.row_ptr = std::move(row_ptr);
  any.layout.rows = std::vector<int8_t>(configurable * kRows * data::kLayoutFeatures);
  return make_plan_source(any, request);
}

std::shared_ptr<const PlanSource> complete_plan_source(const PlanSource& prepared,
                                                       const data::LayoutCandidates& layout) {
  auto symbolic = std::make_shared<SymbolicPlan>(*prepared.symbolic);
  symbolic->row_hash = hash_layout_rows(layout);
  auto source = std::make_shared<PlanSource>();
  source->request = prepared.request;
  source->symbolic = std::move(symbolic);
  return source;
}

std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request,
                                                   const NodeSubset& subset) {
  check_subset(group, subset);
  FORETIME_CHECK(request.sharing != Sharing::none,
                 "{}: a subset of nodes, expected only for requests that share states", group.name);
  auto source = std::make_shared<PlanSource>();
  source->request = request;
  source->symbolic = make_symbolic_plan(group, request, subset);
  return source;
}

data::Group induced_group(const data::Group& group, std::span<const int32_t> nodes) {
  check_subset(group, {nodes, {}, 1});
  auto induced = data::induced_graph(group.graphs, nodes);
  data::Group result = group;
  result.graphs = std::move(induced.graph);
  result.node_splits = std::vector<int64_t>{0, std::ssize(nodes)};

  const data::LayoutCandidates& layout = group.layout;
  std::vector<int32_t> configurable;
  std::vector<int64_t> row_ptr = {0}, columns;
  std::vector<int8_t> rows;
  for (int64_t j = 0; j < layout.configurable(); ++j) {
    const int32_t v = induced.local[layout.nodes[j]];
    if (v < 0) continue;
    configurable.push_back(v);
    columns.push_back(j);
    const auto added = entries_of(layout.row_ptr, j);
    const auto own = layout.rows.subspan(added.first() * data::kLayoutFeatures, added.size() * data::kLayoutFeatures);
    rows.insert(rows.end(), own.begin(), own.end());
    row_ptr.push_back(row_ptr.back() + added.size());
  }
  std::vector<uint8_t> codes;
  codes.reserve(group.candidates * columns.size());
  for (int64_t c = 0; c < group.candidates; ++c)
    for (const int64_t j : columns) codes.push_back(layout.codes[c * layout.configurable() + j]);
  result.layout.nodes = std::move(configurable);
  result.layout.row_ptr = std::move(row_ptr);
  result.layout.rows = std::move(rows);
  result.layout.codes = std::move(codes);
  return result;
}

PieceSize::PieceSize(const data::Group& group, const PlanSource& source, int64_t max_states)
    : limit_(max_states), candidates_(1), shares_(source.symbolic != nullptr) {
  const int64_t alone = std::max<int64_t>(1, plan_states(group, 1, source.request));
  candidates_ = limit_ / alone;
  if (shares_) candidates_ = std::min(kFirst, kSharedPerState * limit_ / (alone + source.symbolic->classes.count()));
  candidates_ = std::max<int64_t>(1, candidates_);
}

int64_t PieceSize::load(const MessagePlan& plan) {
  int64_t load = std::ssize(plan.readout.nodes.stages.back().columns) / kSharedPerState;
  for (const auto& level : plan.levels) load = std::max(load, level->states());
  return load;
}

void PieceSize::observe(const MessagePlan& plan) {
  if (!shares_) return;
  const double fit = static_cast<double>(limit_) / std::max<int64_t>(1, load(plan));
  const double next = plan.candidates() * std::min(fit, kGrowth);
  candidates_ = std::max<int64_t>(1, next);
}

void for_each_plan(const data::Group& group, const std::shared_ptr<const PlanSource>& source,
                   std::span<const int64_t> candidates, int64_t max_states,
                   const std::function<void(const MessagePlan& plan)>& visit) {
  PieceSize piece(group, *source, max_states);
  for (size_t first = 0; first < candidates.size();) {
    const auto some = candidates.subspan(first, std::min<size_t>(piece.candidates(), candidates.size() - first));
    PlanBuilder builder(source->request);
    builder.add(group, some, source);
    const auto plan = std::move(builder).build();
    piece.observe(plan);
    visit(plan);
    first += some.size();
  }
}

}  // namespace foretime::plans
