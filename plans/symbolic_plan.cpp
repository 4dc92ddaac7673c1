#include "plans/symbolic_plan.h"

#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/index_range.h"
#include "plans/plan_source.h"

namespace foretime::plans {

StateHash hash_bytes(std::span<const std::byte> bytes, uint64_t key) {
  StateHash hash{key, bytes.size()};
  for (size_t at = 0; at < bytes.size(); at += sizeof(StateHash)) {
    StateHash block;
    std::memcpy(&block, bytes.data() + at, std::min(sizeof block, bytes.size() - at));
    hash = combined(hash, block);
  }
  return mixed(hash, key);
}

std::vector<double> decision_weights(const data::LayoutCandidates& layout, int64_t candidates) {
  constexpr int64_t kMostCodes = int64_t{1} << 24;
  constexpr int16_t kUnseen = -1;
  const size_t nodes = layout.configurable();
  const int64_t step = std::max<int64_t>(1, candidates * layout.configurable() / kMostCodes);
  // A column of codes with its codes renamed in the order in which they first come is the partition that it makes.
  struct Column {
    std::array<int16_t, 256> name;
    int16_t names = 0;
    StateHash hash;
  };
  std::vector<Column> columns(nodes);
  for (auto& column : columns) column.name.fill(kUnseen);
  for (int64_t c = 0; c < candidates; c += step) {
    const uint8_t* codes = layout.codes.data() + c * layout.configurable();
    for (size_t j = 0; j < nodes; ++j) {
      Column& column = columns[j];
      int16_t& name = column.name[codes[j]];
      if (name == kUnseen) name = column.names++;
      column.hash = mixed(column.hash, name);
    }
  }
  std::map<std::pair<uint64_t, uint64_t>, int64_t> tied;
  for (const auto& column : columns) ++tied[{column.hash.low, column.hash.high}];
  std::vector<double> weights;
  for (const auto& column : columns) weights.push_back(1.0 / tied.at({column.hash.low, column.hash.high}));
  return weights;
}

namespace {

struct HashOfHash {
  size_t operator()(const StateHash& h) const { return h.low ^ h.high; }
};
using HashIndex = std::unordered_map<StateHash, int32_t, HashOfHash>;

/// The sets of configurable nodes that nodes depend on.
class ClassTable {
 public:
  ClassTable(int64_t configurable, int64_t limit) : limit_(limit) {
    for (int32_t q = 0; q < configurable; ++q) make({q}, {});
  }

  static constexpr int32_t kEverything = -2;

  /// Returns the class of the union of `classes`, which are sorted and distinct.
  int32_t joined(const std::vector<int32_t>& classes) {
    if (classes.size() == 1) return classes.front();
    if (classes.front() == kEverything) return kEverything;
    const auto known = by_classes_.find(classes);
    if (known != by_classes_.end()) return known->second;
    std::vector<int32_t> set;
    for (const int32_t q : classes) {
      std::vector<int32_t> more;
      const auto& own = sets_[q];
      std::set_union(set.begin(), set.end(), own.begin(), own.end(), std::back_inserter(more));
      set = std::move(more);
    }
    int32_t result = kEverything;
    if (set.size() <= limit_) {
      const auto same = by_set_.find(set);
      result = same != by_set_.end() ? same->second : make(set, largest_of(classes));
    }
    by_classes_.emplace(classes, result);
    return result;
  }

  SymbolicPlan::Classes finish() && {
    SymbolicPlan::Classes result;
    result.member_ptr = std::move(member_ptr_);
    result.members = std::move(members_);
    result.member_ptr.push_back(result.member_ptr.back());  // everything
    return result;
  }

 private:
  int32_t make(const std::vector<int32_t>& set, const std::vector<int32_t>& members) {
    const int32_t id = sets_.size();
    sets_.push_back(set);
    by_set_.emplace(set, id);
    members_.insert(members_.end(), members.begin(), members.end());
    member_ptr_.push_back(members_.size());
    return id;
  }

  /// Returns the classes whose sets are no subsets of another's.
  std::vector<int32_t> largest_of(const std::vector<int32_t>& classes) const {
    std::vector<int32_t> kept;
    for (const int32_t q : classes) {
      const auto& own = sets_[q];
      const bool inside = std::ranges::any_of(classes, [&](int32_t other) {
        const auto& theirs = sets_[other];
        return other != q && theirs.size() > own.size() &&
               std::includes(theirs.begin(), theirs.end(), own.begin(), own.end());
      });
      if (!inside) kept.push_back(q);
    }
    return kept;
  }

  size_t limit_;
  std::vector<std::vector<int32_t>> sets_;
  std::map<std::vector<int32_t>, int32_t> by_set_, by_classes_;
  std::vector<int64_t> member_ptr_ = {0};
  std::vector<int32_t> members_;
};

class SymbolicPlanMaker {
 public:
  SymbolicPlanMaker(const data::Group& group, const PlanRequest& request, const NodeSubset& subset, int64_t class_limit)
      : group_(group), subset_(subset), result_(std::make_shared<SymbolicPlan>()) {
    result_->request = request;
    result_->pools = subset.pools;
    merges_ = request.sharing == Sharing::states;
    find_nodes();
    classes_ = std::make_unique<ClassTable>(result_->configurable(), class_limit);
  }

  std::shared_ptr<const SymbolicPlan> make() && {
    result_->row_hash = hash_layout_rows(group_.layout);
    find_inputs();
    make_first_level();
    for (int64_t l = 0; l < result_->request.layers; ++l) make_next_level();
    result_->node_parts = make_parts(false, {});
    result_->configurable_parts = make_parts(true, {});
    if (result_->request.tied)
      result_->tied_parts = make_parts(true, decision_weights(group_.layout, group_.candidates));
    result_->classes = std::move(*classes_).finish();
    const int32_t everything = result_->classes.everything();
    for (auto& level : result_->levels)
      for (int32_t& q : level.varying.class_of) q = q == ClassTable::kEverything ? everything : q;
    for (auto* parts : {&result_->node_parts, &result_->configurable_parts, &result_->tied_parts})
      for (auto& part : *parts) part.class_of = part.class_of == ClassTable::kEverything ? everything : part.class_of;
    return result_;
  }

 private:
  static int32_t fixed(int32_t state) { return -1 - state; }

  /// The nodes of the subset, the edges between them, and their configurable ones.
  void find_nodes() {
    const data::GraphBlock& graph = group_.graphs;
    graph_node_.assign(subset_.nodes.begin(), subset_.nodes.end());
    if (subset_.nodes.empty()) {
      graph_node_.resize(graph.nodes());
      std::iota(graph_node_.begin(), graph_node_.end(), 0);
    }
    const size_t n = graph_node_.size();
    result_->nodes = n;
    std::vector<int32_t> local(graph.nodes(), -1);
    for (size_t v = 0; v < n; ++v) local[graph_node_[v]] = v;
    std::vector<int32_t> sources, targets;
    for (int64_t e = 0; e < graph.edges(); ++e) {
      const int32_t u = local[graph.edge_source[e]];
      const int32_t v = local[graph.edge_target[e]];
      if (u < 0 || v < 0) continue;
      sources.push_back(u);
      targets.push_back(v);
    }
    for (const RelationSpec& relation : result_->request.relations)
      relations_.push_back(relation_matrix(0, result_->nodes, sources, targets, relation));
    configurable_.assign(n, -1);
    for (int64_t j = 0; j < group_.layout.configurable(); ++j) {
      const int32_t v = local[group_.layout.nodes[j]];
      if (v < 0) continue;
      configurable_[v] = result_->column.size();
      result_->column.push_back(j);
    }
  }

  void find_inputs() {
    const data::GraphBlock& graph = group_.graphs;
    HashIndex index;
    for (const int32_t v : graph_node_) {
      auto hash = hash_bytes(std::as_bytes(graph.node_features.subspan(v * graph.feature_count, graph.feature_count)),
                             graph.node_types[v]);
      if (!merges_) hash = mixed(hash, static_cast<uint64_t>(v) + 1);
      // Equal nodes of two collections are inputs of their own: the model tells them apart.
      if (result_->request.collections) hash = mixed(hash, ~static_cast<uint64_t>(group_.collection));
      const auto [at, fresh] = index.emplace(hash, result_->inputs.hash.size());
      if (fresh) {
        result_->inputs.hash.push_back(hash);
        result_->inputs.graph_node.push_back(v);
      }
      input_.push_back(at->second);
    }
  }

  void make_first_level() {
    SymbolicPlan::Level level;
    HashIndex known;
    for (size_t v = 0; v < input_.size(); ++v) {
      const int32_t q = configurable_[v];
      const StateHash input = result_->inputs.hash[input_[v]];
      int64_t first_row = 0, rows = 0;
      if (q >= 0) {
        const auto own = entries_of(group_.layout.row_ptr, result_->column[q]);
        first_row = own.first();
        rows = own.size();
      }
      if (rows > 1) {
        reference_.push_back(level.varying.nodes());
        level.varying.class_of.push_back(merges_ ? q : ClassTable::kEverything);
        level.varying.input.push_back(input_[v]);
        result_->first_column.push_back(q);
        level.varying.base.push_back(input);
        continue;
      }
      const int32_t row = q >= 0 && rows == 1 ? static_cast<int32_t>(first_row) : -1;
      const StateHash hash = row < 0 ? input : combined(input, result_->row_hash[row]);
      const auto [at, fresh] = known.emplace(hash, level.fixed.states());
      reference_.push_back(fixed(at->second));
      if (!fresh) continue;
      level.fixed.hash.push_back(hash);
      level.fixed.input.push_back(input_[v]);
      level.fixed.layout_row.push_back(row);
    }
    result_->levels.push_back(std::move(level));
  }

  /// Class of node v's messages: -1 where it is fixed.
  int32_t class_above(size_t v, const SymbolicPlan::Varying& below) {
    std::vector<int32_t> classes;
    const auto note = [&](size_t u) {
      const int32_t at = reference_[u];
      if (at >= 0) classes.push_back(below.class_of[at]);
    };
    note(v);
    for (const CsrMatrix& relation : relations_)
      for (const int64_t e : entries_of(relation.row_ptr, v)) note(relation.columns[e]);
    if (classes.empty()) return -1;
    std::ranges::sort(classes);
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    return classes_->joined(classes);
  }

  void make_next_level() {
    const SymbolicPlan::Level& below = result_->levels.back();
    SymbolicPlan::Level level;
    HashIndex known;
    std::vector<size_t> fixed_nodes, varying_nodes;  // representatives of the new states; all varying ones
    std::vector<int32_t> above(reference_.size());
    for (size_t v = 0; v < reference_.size(); ++v) {
      const StateHash messages = fixed_messages(v, below.fixed);
      const int32_t q = class_above(v, below.varying);
      if (q != -1) {
        above[v] = level.varying.nodes();
        level.varying.class_of.push_back(q);
        level.varying.base.push_back(messages);
        level.varying.self.push_back(reference_[v]);
        varying_nodes.push_back(v);
        continue;
      }
      const int32_t self = -1 - reference_[v];
      const StateHash hash = combined(below.fixed.hash[self], messages);
      const auto [at, fresh] = known.emplace(hash, level.fixed.states());
      above[v] = fixed(at->second);
      if (!fresh) continue;
      level.fixed.hash.push_back(hash);
      level.fixed.self.push_back(self);
      fixed_nodes.push_back(v);
    }
    append_messages(fixed_nodes, /*negate=*/true, level.fixed.row_ptr, level.fixed.columns, level.fixed.values);
    append_messages(varying_nodes, /*negate=*/false, level.varying.row_ptr, level.varying.columns,
                    level.varying.values);
    reference_ = std::move(above);
    result_->levels.push_back(std::move(level));
  }

  StateHash fixed_messages(size_t v, const SymbolicPlan::Fixed& below) const {
    StateHash sum;
    for (size_t r = 0; r < relations_.size(); ++r) {
      const CsrMatrix& relation = relations_[r];
      for (const int64_t e : entries_of(relation.row_ptr, v)) {
        const int32_t at = reference_[relation.columns[e]];
        if (at >= 0) continue;
        sum = sum + mixed(below.hash[-1 - at], message_key(r, relation.values[e]));
      }
    }
    return sum;
  }

  void append_messages(const std::vector<size_t>& nodes, bool negate, std::vector<int64_t>& row_ptr,
                       std::vector<int32_t>& columns, std::vector<double>& values) const {
    row_ptr.assign(1, 0);
    std::vector<std::pair<int32_t, double>> fixed_sources;
    for (const CsrMatrix& relation : relations_) {
      for (const size_t v : nodes) {
        fixed_sources.clear();
        for (const int64_t e : entries_of(relation.row_ptr, v)) {
          const int32_t at = reference_[relation.columns[e]];
          const double value = relation.values[e];
          if (at < 0) {
            fixed_sources.emplace_back(negate ? -1 - at : at, value);
          } else {
            columns.push_back(at);
            values.push_back(value);
          }
        }
        append_merged(fixed_sources, columns, values);
        row_ptr.push_back(columns.size());
      }
    }
  }

  /// `weights`: of the group's configurable nodes; empty: each node counts 1.
  std::vector<SymbolicPlan::Part> make_parts(bool only_configurable, const std::vector<double>& weights) const {
    std::map<std::pair<int32_t, int32_t>, SymbolicPlan::Part> parts;  // key: pool and class
    std::map<std::pair<int32_t, int32_t>, size_t> place;              // index of a fixed state in its pool's part
    const auto& varying = result_->levels.back().varying;
    for (size_t v = 0; v < reference_.size(); ++v) {
      if (only_configurable && configurable_[v] < 0) continue;
      const int32_t pool = subset_.pool.empty() ? 0 : subset_.pool[v];
      const int32_t at = reference_[v];
      double weight = 1.0;
      if (!weights.empty()) {
        const size_t column = configurable_[v];
        weight = weights[result_->column[column]];
      }
      const int32_t q = at >= 0 ? varying.class_of[at] : -1;
      auto& part = parts[{pool, q}];
      part.pool = pool;
      part.class_of = q;
      if (at >= 0) {
        part.members.push_back(at);
        part.counts.push_back(weight);
        continue;
      }
      const auto [found, fresh] = place.emplace(std::pair{pool, at}, part.members.size());
      if (fresh) {
        part.members.push_back(-1 - at);
        part.counts.push_back(0);
      }
      part.counts[found->second] += weight;
    }
    std::vector<SymbolicPlan::Part> list;
    for (auto& [key, part] : parts) list.push_back(std::move(part));
    return list;
  }

  const data::Group& group_;
  const NodeSubset& subset_;
  bool merges_ = true;
  std::shared_ptr<SymbolicPlan> result_;
  std::vector<int32_t> graph_node_;    // [nodes]
  std::vector<int32_t> configurable_;  // [nodes] index among the configurable ones, or -1
  std::vector<int32_t> input_;         // [nodes]
  std::vector<int32_t> reference_;     // [nodes] in the level made last
  std::vector<CsrMatrix> relations_;
  std::unique_ptr<ClassTable> classes_;
};

}  // namespace

std::vector<StateHash> hash_layout_rows(const data::LayoutCandidates& layout) {
  const auto bytes = std::as_bytes(layout.rows.span());
  std::vector<StateHash> hashes;
  for (size_t first = 0; first < bytes.size(); first += data::kLayoutFeatures)
    hashes.push_back(hash_bytes(bytes.subspan(first, data::kLayoutFeatures), 2));
  return hashes;
}

std::shared_ptr<const SymbolicPlan> make_symbolic_plan(const data::Group& group, const PlanRequest& request,
                                                       const NodeSubset& subset, int64_t class_limit) {
  return SymbolicPlanMaker(group, request, subset, class_limit).make();
}

}  // namespace foretime::plans
