#include "plans/plan_source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "data/files/packed.h"
#include "plans/symbolic_plan.h"

namespace foretime::plans {
namespace {

void check_subset(const data::Group& group, const NodeSubset& subset) {
  const auto fail = [&](const std::string& what) { throw DataError("{}: {}", group.name, what); };
  if (group.kind != data::CandidateKind::layout) fail("a part of its graph, expected a layout group");
  const int64_t nodes = group.graphs.nodes();
  const int64_t count = subset.nodes.empty() ? nodes : static_cast<int64_t>(subset.nodes.size());
  for (size_t i = 0; i < subset.nodes.size(); ++i) {
    const int32_t v = subset.nodes[i];
    if (v < 0 || v >= nodes || (i > 0 && v <= subset.nodes[i - 1]))
      fail(fmt::format("node {} at position {} of a subset, expected ascending ids below {}", v, i, nodes));
  }
  if (!subset.pool.empty() && static_cast<int64_t>(subset.pool.size()) != count)
    fail(fmt::format("pools of {} nodes, expected {}", subset.pool.size(), count));
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
  if (request.sharing == Sharing::none)
    throw DataError("{}: a part of its graph for a model that shares no states, expected a group of its own",
                    group.name);
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

namespace {

constexpr int64_t kFirst = 4096;
constexpr int64_t kSharedPerState = 16;  // numbers per candidate that cost as much memory as a state
constexpr double kGrowth = 16;

}  // namespace

PieceSize::PieceSize(const data::Group& group, const PlanSource& source, int64_t max_states)
    : limit_(max_states), candidates_(1), shares_(source.symbolic != nullptr) {
  const int64_t alone = std::max<int64_t>(1, plan_states(group, 1, source.request));
  candidates_ = limit_ / alone;
  if (shares_) candidates_ = std::min(kFirst, kSharedPerState * limit_ / (alone + source.symbolic->classes.count()));
  candidates_ = std::max<int64_t>(1, candidates_);
}

int64_t PieceSize::load(const MessagePlan& plan) {
  int64_t load = static_cast<int64_t>(plan.readout.nodes.stages.back().columns.size()) / kSharedPerState;
  for (const auto& level : plan.levels) load = std::max(load, level->states());
  return load;
}

void PieceSize::observe(const MessagePlan& plan) {
  if (!shares_) return;
  const double fit = static_cast<double>(limit_) / static_cast<double>(std::max<int64_t>(1, load(plan)));
  const double next = static_cast<double>(plan.candidates()) * std::min(fit, kGrowth);
  candidates_ = std::max<int64_t>(1, static_cast<int64_t>(next));
}

void for_each_plan(const data::Group& group, const std::shared_ptr<const PlanSource>& source,
                   std::span<const int64_t> candidates, int64_t max_states,
                   const std::function<void(const MessagePlan& plan)>& visit) {
  PieceSize piece(group, *source, max_states);
  for (size_t first = 0; first < candidates.size();) {
    const auto some =
        candidates.subspan(first, std::min(static_cast<size_t>(piece.candidates()), candidates.size() - first));
    PlanBuilder builder(source->request);
    builder.add(group, some, source);
    const auto plan = std::move(builder).build();
    piece.observe(plan);
    visit(plan);
    first += some.size();
  }
}

std::shared_ptr<const PlanSource> load_plan_source(const data::GroupHeader& header, const data::Group& group,
                                                   const PlanRequest& request, int64_t prune_hops) {
  if (header.member >= 0 && group.kind == data::CandidateKind::layout && request.sharing != Sharing::none) {
    if (const auto stored = data::load_packed_plan(header, symbolic_plan_key(request, prune_hops))) {
      auto source = std::make_shared<PlanSource>();
      source->request = request;
      source->symbolic = symbolic_plan_from_bytes(stored->span(), group, request,
                                                  fmt::format("{}: {}", header.file.string(), header.name));
      return source;
    }
  }
  return make_plan_source(group, request);
}

}  // namespace foretime::plans
