#include "plans/message_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/index_range.h"
#include "plans/plan_source.h"
#include "plans/symbolic_plan.h"

namespace foretime::plans {
namespace {

constexpr int64_t kMaximumStates = std::numeric_limits<int32_t>::max();

/// One call of add(): what build() needs of the group. Arrays share the group's memory.
struct Entry {
  data::GraphBlock graphs;
  data::LayoutCandidates layout;
  Array<float> tile_features;
  std::vector<int64_t> candidates;
  std::shared_ptr<const GroupTopology> topology;  // none: each relation is made for this batch alone
  int64_t nodes = 0;                              // rows of node_features that it adds
  data::Collection collection = data::Collection::none;
  std::vector<double> tied;  // weights of the configurable nodes, where the request asks for them
  int64_t copies = 1;        // states of each node: candidates, or 1 (programs, tile late)
  int64_t states() const { return nodes * copies; }
};

/// Rows [first, last) of a matrix whose columns lie in the same range, to stand `copies` times on the diagonal.
struct DiagonalBlock {
  const CsrMatrix* matrix = nullptr;
  int64_t first = 0, last = 0, copies = 1;
  int64_t entries() const { return matrix->row_ptr[last] - matrix->row_ptr[first]; }
};

CsrMatrix block_diagonal(const std::vector<DiagonalBlock>& blocks) {
  CsrMatrix result;
  int64_t entries = 0;
  for (const DiagonalBlock& block : blocks) {
    result.rows += (block.last - block.first) * block.copies;
    entries += block.entries() * block.copies;
  }
  result.cols = result.rows;
  result.row_ptr.resize(result.rows + 1);
  result.columns.resize(entries);
  result.values.resize(entries);

  int64_t* row_end = result.row_ptr.data() + 1;
  int32_t* column = result.columns.data();
  double* value = result.values.data();
  int64_t row = 0, entry = 0;
  for (const DiagonalBlock& block : blocks) {
    const int64_t* starts = block.matrix->row_ptr.data();
    const int64_t start = starts[block.first], count = block.entries(), rows = block.last - block.first;
    const int32_t* columns = block.matrix->columns.data() + start;
    const double* values = block.matrix->values.data() + start;
    for (int64_t copy = 0; copy < block.copies; ++copy) {
      const int32_t shift = row - block.first;
      for (int64_t r = 0; r < rows; ++r) row_end[row + r] = entry + starts[block.first + r + 1] - start;
      for (int64_t i = 0; i < count; ++i) column[entry + i] = columns[i] + shift;
      std::copy_n(values, count, value + entry);
      row += rows;
      entry += count;
    }
  }
  return result;
}

/// The relation's matrix over all entries' states; matrices made here live in `made` until the result is complete.
CsrMatrix relation_of_batch(const std::vector<Entry>& entries, data::CandidateKind kind, const RelationSpec& relation,
                            size_t index) {
  std::vector<DiagonalBlock> blocks;
  std::vector<std::unique_ptr<CsrMatrix>> made;
  const auto own = [&](const data::GraphBlock& graphs, int64_t g) {
    const auto nodes = entries_of(graphs.graph_ptr, g), edges = entries_of(graphs.edge_ptr, g);
    made.push_back(std::make_unique<CsrMatrix>(
        relation_matrix(nodes.first(), nodes.size(), graphs.edge_source.subspan(edges.first(), edges.size()),
                        graphs.edge_target.subspan(edges.first(), edges.size()), relation)));
    return made.back().get();
  };
  for (const Entry& entry : entries) {
    if (kind != data::CandidateKind::program) {
      const CsrMatrix* matrix = entry.topology ? &entry.topology->relations[index] : own(entry.graphs, 0);
      blocks.push_back({matrix, 0, entry.nodes, entry.copies});
      continue;
    }
    for (const int64_t c : entry.candidates) {
      const auto nodes = entries_of(entry.graphs.graph_ptr, c);
      if (entry.topology) blocks.push_back({&entry.topology->relations[index], nodes.first(), nodes.last(), 1});
      else blocks.push_back({own(entry.graphs, c), 0, nodes.size(), 1});
    }
  }
  return block_diagonal(blocks);
}

template <class T>
void append(std::vector<T>& to, const Array<T>& from, int64_t start, int64_t count) {
  const auto part = from.subspan(start, count);
  to.insert(to.end(), part.begin(), part.end());
}

}  // namespace

struct PlanBuilder::State {
  PlanRequest request;
  data::CandidateKind kind = data::CandidateKind::layout;
  int64_t feature_count = 0, nodes = 0, states = 0, candidates = 0;
  std::vector<Entry> entries;
  std::vector<SharedEntry> shared;  // layout groups whose states are shared; then `entries` is empty

  bool empty() const { return entries.empty() && shared.empty(); }
  void add_shared(const data::Group& group, std::span<const int64_t> list,
                  std::shared_ptr<const SymbolicPlan> symbolic) {
    FORETIME_CHECK(shared.empty() || shared.front().symbolic->pools == symbolic->pools,
                   "{}: {} pools, expected {} as in the other groups of the batch", group.name, symbolic->pools,
                   shared.front().symbolic->pools);
    kind = group.kind;
    feature_count = group.graphs.feature_count;
    candidates += std::ssize(list);
    shared.push_back({group.graphs, group.layout, {list.begin(), list.end()}, std::move(symbolic), group.collection});
  }
  void fill_inputs(MessagePlan& plan) const {
    plan.feature_count = feature_count;
    plan.node_features.reserve(nodes * feature_count);
    plan.node_types.reserve(nodes);
    plan.group_ptr.reserve(entries.size() + 1);
    plan.group_ptr.push_back(0);
    if (kind == data::CandidateKind::tile) plan.candidate_features.reserve(candidates * data::kTileFeatures);
    if (kind == data::CandidateKind::layout) {
      int64_t rows = data::kLayoutFeatures;
      for (const Entry& entry : entries) rows += entry.layout.rows.size();
      plan.layout_rows.reserve(rows);
      plan.layout_rows.assign(data::kLayoutFeatures, 0);
    }
    for (const Entry& entry : entries) {
      const auto copy_nodes = [&](int64_t first, int64_t count) {
        append(plan.node_features, entry.graphs.node_features, first * feature_count, count * feature_count);
        append(plan.node_types, entry.graphs.node_types, first, count);
        if (request.collections)
          plan.node_collections.insert(plan.node_collections.end(), count, static_cast<uint8_t>(entry.collection));
      };
      if (kind == data::CandidateKind::program) {
        for (const int64_t c : entry.candidates) {
          const auto own = entries_of(entry.graphs.graph_ptr, c);
          copy_nodes(own.first(), own.size());
        }
      } else {
        copy_nodes(0, entry.nodes);
      }
      if (kind == data::CandidateKind::layout) append(plan.layout_rows, entry.layout.rows, 0, entry.layout.rows.size());
      if (kind == data::CandidateKind::tile)
        for (const int64_t c : entry.candidates)
          append(plan.candidate_features, entry.tile_features, c * data::kTileFeatures, data::kTileFeatures);
      plan.group_ptr.push_back(plan.group_ptr.back() + std::ssize(entry.candidates));
    }
  }
  std::shared_ptr<PlanLevel> make_level() const {
    auto level = std::make_shared<PlanLevel>();
    level->node.resize(states);
    if (kind == data::CandidateKind::layout) level->layout_row.assign(states, 0);
    const bool early = kind == data::CandidateKind::tile && request.tile_join == TileJoin::early;
    if (early) level->candidate.resize(states);

    int64_t state = 0, node = 0, candidate = 0, table = 1;
    for (const Entry& entry : entries) {
      for (int64_t copy = 0; copy < entry.copies; ++copy, state += entry.nodes) {
        const auto begin = level->node.begin() + state;
        std::iota(begin, begin + entry.nodes, static_cast<int32_t>(node));
        if (early) std::fill_n(level->candidate.begin() + state, entry.nodes, candidate + copy);
        if (kind != data::CandidateKind::layout) continue;
        const int64_t configurable = entry.layout.configurable();
        const uint8_t* codes = entry.layout.codes.data() + entry.candidates[copy] * configurable;
        int32_t* rows = level->layout_row.data() + state;
        for (int64_t j = 0; j < configurable; ++j)
          rows[entry.layout.nodes[j]] = table + entry.layout.row_ptr[j] + codes[j];
      }
      node += entry.nodes;
      candidate += std::ssize(entry.candidates);
      table += entry.layout.rows.size() / data::kLayoutFeatures;
    }
    return level;
  }
  PlanReadout make_readout() const {
    PlanReadout readout;
    auto& all = readout.nodes.stages.emplace_back();
    auto& some = readout.configurable.stages.emplace_back();
    all.rows = some.rows = candidates;
    all.cols = some.cols = states;
    const bool candidates_share_states = kind == data::CandidateKind::tile && request.tile_join == TileJoin::late;
    int64_t all_entries = 0, some_entries = 0;
    for (const Entry& entry : entries) {
      const auto count = std::ssize(entry.candidates);
      all_entries += kind == data::CandidateKind::program ? entry.nodes : entry.nodes * count;
      some_entries += entry.layout.configurable() * count;
    }
    all.columns.reserve(all_entries);
    some.columns.reserve(some_entries);
    for (CsrMatrix* matrix : {&all, &some}) {
      matrix->row_ptr.reserve(candidates + 1);
      matrix->row_ptr.push_back(0);
    }

    int64_t first_state = 0;
    for (const Entry& entry : entries) {
      int64_t state = first_state;
      for (const int64_t c : entry.candidates) {
        const bool program = kind == data::CandidateKind::program;
        const int64_t count = program ? entry.graphs.graph_ptr[c + 1] - entry.graphs.graph_ptr[c] : entry.nodes;
        for (int64_t v = 0; v < count; ++v) all.columns.push_back(state + v);
        for (const int32_t v : entry.layout.nodes) some.columns.push_back(state + v);
        all.row_ptr.push_back(all.columns.size());
        some.row_ptr.push_back(some.columns.size());
        if (!candidates_share_states) state += count;
      }
      first_state += entry.states();
    }
    for (CsrMatrix* matrix : {&all, &some}) matrix->values.assign(matrix->columns.size(), 1.0);
    if (!request.tied) return readout;
    auto& tied = readout.tied.stages.emplace_back(some);
    tied.values.clear();
    for (const Entry& entry : entries)
      for (size_t c = 0; c < entry.candidates.size(); ++c)
        tied.values.insert(tied.values.end(), entry.tied.begin(), entry.tied.end());
    return readout;
  }
};

PlanBuilder::PlanBuilder(PlanRequest request) : state_(std::make_unique<State>()) {
  state_->request = std::move(request);
}
PlanBuilder::~PlanBuilder() = default;

void PlanBuilder::add(const data::Group& group, std::span<const int64_t> candidates,
                      std::shared_ptr<const PlanSource> source) {
  const bool first = state_->empty();
  FORETIME_CHECK(first || state_->kind == group.kind, "{}: a group of another kind than those of its batch",
                 group.name);
  FORETIME_CHECK(first || state_->feature_count == group.graphs.feature_count,
                 "{}: {} features a node, expected {} as in the other groups of the batch", group.name,
                 group.graphs.feature_count, state_->feature_count);
  for (const int64_t c : candidates)
    FORETIME_CHECK(c >= 0 && c < group.candidates, "{}: candidate {} of {}", group.name, c, group.candidates);
  FORETIME_CHECK(!source || source->request == state_->request, "{}: a plan source of another request", group.name);
  if (group.kind == data::CandidateKind::layout && state_->request.sharing != Sharing::none) {
    if (!source) source = make_plan_source(group, state_->request);
    const auto& rows = source->symbolic->row_hash;
    FORETIME_CHECK(std::ssize(rows) == group.layout.rows.size() / data::kLayoutFeatures,
                   "{}: its plan source was made for another group, with {} layout rows", group.name, rows.size());
    state_->add_shared(group, candidates, source->symbolic);
    return;
  }
  const auto topology = source ? source->topology : nullptr;
  Entry entry;
  const auto count = std::ssize(candidates);
  if (group.kind == data::CandidateKind::program) {
    for (const int64_t c : candidates) entry.nodes += group.graphs.graph_ptr[c + 1] - group.graphs.graph_ptr[c];
  } else {
    entry.nodes = group.graphs.nodes();
    const bool late = group.kind == data::CandidateKind::tile && state_->request.tile_join == TileJoin::late;
    entry.copies = late ? 1 : count;
  }
  FORETIME_CHECK(!topology || topology->relations.empty() || topology->relations[0].rows == group.graphs.nodes(),
                 "{}: a plan source of another group with {} nodes", group.name, topology->relations[0].rows);
  // A graph has fewer than 2^31 nodes, so the comparison by division cannot overflow where the product would.
  const bool too_many = entry.copies > 0 && entry.nodes > (kMaximumStates - state_->states) / entry.copies;
  if (too_many || entry.nodes > kMaximumStates - state_->nodes)
    throw DataError(
        "{}: {} nodes × {} candidates after {} states of other groups: "
        "expected at most {} states in a batch; use fewer candidates or groups",
        group.name, entry.nodes, count, state_->states, kMaximumStates);
  state_->kind = group.kind;
  state_->feature_count = group.graphs.feature_count;
  state_->nodes += entry.nodes;
  state_->states += entry.states();
  state_->candidates += count;
  entry.graphs = group.graphs;
  entry.collection = group.collection;
  if (group.kind == data::CandidateKind::layout) {
    entry.layout = group.layout;
    if (state_->request.tied) entry.tied = decision_weights(group.layout, group.candidates);
  }
  if (group.kind == data::CandidateKind::tile) entry.tile_features = group.tile_features;
  entry.candidates.assign(candidates.begin(), candidates.end());
  entry.topology = topology;
  state_->entries.push_back(std::move(entry));
}

MessagePlan PlanBuilder::build() && {
  MessagePlan plan;
  const auto& request = state_->request;
  if (!state_->shared.empty()) {
    plan.feature_count = state_->feature_count;
    plan.group_ptr.push_back(0);
    for (const auto& entry : state_->shared)
      plan.group_ptr.push_back(plan.group_ptr.back() + std::ssize(entry.candidates));
    fill_shared_plan(state_->shared, request, plan);
    return plan;
  }
  state_->fill_inputs(plan);
  plan.levels.assign(request.layers + 1, state_->make_level());
  plan.readout = state_->make_readout();
  if (request.layers == 0) return plan;

  auto layer = std::make_shared<PlanLayer>();
  for (size_t r = 0; r < request.relations.size(); ++r)
    layer->relations.push_back(relation_of_batch(state_->entries, state_->kind, request.relations[r], r));
  layer->self.resize(state_->states);
  std::iota(layer->self.begin(), layer->self.end(), 0);
  plan.layers.assign(request.layers, std::move(layer));
  return plan;
}

bool PlanLayer::keeps_states(int64_t below) const {
  if (std::ssize(self) != below) return false;
  for (int64_t i = 0; i < below; ++i)
    if (self[i] != i) return false;
  return true;
}

CsrMatrix transpose(const CsrMatrix& matrix) {
  CsrMatrix result;
  result.rows = matrix.cols;
  result.cols = matrix.rows;
  result.row_ptr.assign(matrix.cols + 1, 0);
  result.columns.resize(matrix.columns.size());
  result.values.resize(matrix.values.size());
  for (const int32_t column : matrix.columns) ++result.row_ptr[column + 1];
  std::partial_sum(result.row_ptr.begin(), result.row_ptr.end(), result.row_ptr.begin());
  std::vector<int64_t> next(result.row_ptr.begin(), result.row_ptr.end() - 1);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (const int64_t i : entries_of(matrix.row_ptr, row)) {
      const size_t at = next[matrix.columns[i]]++;
      result.columns[at] = row;
      result.values[at] = matrix.values[i];
    }
  }
  return result;
}

int64_t plan_states(const data::Group& group, int64_t candidates, const PlanRequest& request) {
  if (group.kind == data::CandidateKind::program) {
    int64_t largest = 0;
    for (int64_t g = 0; g < group.graphs.graphs(); ++g)
      largest = std::max(largest, group.graphs.graph_ptr[g + 1] - group.graphs.graph_ptr[g]);
    return largest * candidates;
  }
  const bool late = group.kind == data::CandidateKind::tile && request.tile_join == TileJoin::late;
  return group.graphs.nodes() * (late ? 1 : candidates);
}

}  // namespace foretime::plans
