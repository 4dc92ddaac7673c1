#include "plans/plan_source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "data/graphs/induced_graph.h"

namespace foretime::plans {
namespace {

void check_subset(const data::Group& group, const NodeSubset& subset) {
  const auto fail = [&](const std::string& what) { throw DataError(fmt::format("{}: {}", group.name, what)); };
  if (group.kind != data::CandidateKind::layout) fail("a part of its graph, expected a layout group");
  const int64_t nodes = group.graphs.nodes();
  const int64_t count = subset.nodes.empty() ? nodes : static_cast<int64_t>(subset.nodes.size());
  for (size_t i = 0; i < subset.nodes.size(); ++i) {
    const int32_t v = subset.nodes[i];
    if (v < 0 || v >= nodes || (i > 0 && v <= subset.nodes[i - 1])) {
      fail(fmt::format("node {} at position {} of a subset, expected ascending ids below {}", v, i, nodes));
    }
  }
  if (!subset.pool.empty() && static_cast<int64_t>(subset.pool.size()) != count) {
    fail(fmt::format("pools of {} nodes, expected {}", subset.pool.size(), count));
  }
  for (const int32_t pool : subset.pool) {
    if (pool < 0 || pool >= subset.pools) fail(fmt::format("pool {}, expected 0 … {}", pool, subset.pools - 1));
  }
}

}  // namespace

std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request) {
  auto source = std::make_shared<PlanSource>();
  source->request = request;
  if (group.kind == data::CandidateKind::layout && request.sharing != Sharing::none) {
    source->symbolic = make_symbolic_plan(group, request, {});
  } else {
    source->topology = make_topology(group, request);
  }
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
  any.layout.rows = std::vector<int8_t>(static_cast<size_t>(configurable * kRows * data::kLayoutFeatures));
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
  if (request.sharing == Sharing::none) {
    throw DataError(fmt::format(
        "{}: a part of its graph for a model that shares no states, expected a group of its own", group.name));
  }
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
  result.node_splits = std::vector<int64_t>{0, static_cast<int64_t>(nodes.size())};

  const data::LayoutCandidates& layout = group.layout;
  std::vector<int32_t> configurable;
  std::vector<int64_t> row_ptr = {0}, columns;
  std::vector<int8_t> rows;
  for (int64_t j = 0; j < layout.configurable(); ++j) {
    const int32_t v = induced.local[static_cast<size_t>(layout.nodes[j])];
    if (v < 0) continue;
    configurable.push_back(v);
    columns.push_back(j);
    const int64_t first = layout.row_ptr[j], more = layout.row_ptr[j + 1] - first;
    const auto own = layout.rows.subspan(first * data::kLayoutFeatures, more * data::kLayoutFeatures);
    rows.insert(rows.end(), own.begin(), own.end());
    row_ptr.push_back(row_ptr.back() + more);
  }
  std::vector<uint8_t> codes;
  codes.reserve(static_cast<size_t>(group.candidates) * columns.size());
  for (int64_t c = 0; c < group.candidates; ++c) {
    for (const int64_t j : columns) codes.push_back(layout.codes[c * layout.configurable() + j]);
  }
  result.layout.nodes = std::move(configurable);
  result.layout.row_ptr = std::move(row_ptr);
  result.layout.rows = std::move(rows);
  result.layout.codes = std::move(codes);
  return result;
}

}  // namespace foretime::plans
