#include <limits>
#include <utility>

#include "base/index_range.h"
#include "plans/candidate_blocks.h"
#include "plans/plan_source.h"

namespace foretime::plans {
namespace {

/// The candidates in a batch that share one symbolic plan.
struct Sample {
  const SharedEntry* entry = nullptr;
  std::vector<int64_t> candidates;
  std::unique_ptr<CandidateBlocks> blocks;
  std::vector<int32_t> fixed;   // [fixed states of the level made last] state in the plan
  std::vector<int64_t> first;   // [varying nodes of it] into `states`
  std::vector<int32_t> states;  // a varying node's states, one a block of its class
  std::vector<int32_t> below_fixed, below_states;
  std::vector<int64_t> below_first;
  std::vector<int32_t> input_row;  // [inputs] row of the plan's node_features, or -1

  const SymbolicPlan& symbolic() const { return *entry->symbolic; }
};

/// Rows of a relation while they are made.
struct Rows {
  std::vector<int64_t> row_ptr = {0};
  std::vector<int32_t> columns;
  std::vector<double> values;
  void add(int64_t column, double value) {
    columns.push_back(column);
    values.push_back(value);
  }
  void end_row() { row_ptr.push_back(columns.size()); }
  int64_t count() const { return std::ssize(row_ptr) - 1; }
  CsrMatrix finish(int64_t cols) && {
    CsrMatrix matrix;
    matrix.rows = count();
    matrix.cols = cols;
    matrix.row_ptr = std::move(row_ptr);
    matrix.columns = std::move(columns);
    matrix.values = std::move(values);
    return matrix;
  }
};

class SharedPlanMaker {
 public:
  SharedPlanMaker(const std::vector<SharedEntry>& entries, const PlanRequest& request, MessagePlan& plan)
      : entries_(entries), request_(request), plan_(plan) {
    merges_ = request.sharing == Sharing::states;
    std::unordered_map<const SymbolicPlan*, size_t> known;
    for (const SharedEntry& entry : entries) {
      const auto [at, fresh] = known.emplace(entry.symbolic.get(), samples_.size());
      if (fresh) samples_.emplace_back().entry = &entry;
      Sample& sample = samples_[at->second];
      place_.push_back({at->second, std::ssize(sample.candidates)});
      sample.candidates.insert(sample.candidates.end(), entry.candidates.begin(), entry.candidates.end());
    }
    for (Sample& sample : samples_) {
      sample.blocks = std::make_unique<CandidateBlocks>(sample.symbolic(), sample.entry->layout, sample.candidates);
      sample.input_row.assign(sample.symbolic().inputs.hash.size(), -1);
    }
  }

  void make() {
    plan_.layout_rows.assign(data::kLayoutFeatures, 0);
    make_first_level();
    for (int64_t l = 1; l <= request_.layers; ++l) make_level(l);
    plan_.readout.pools = samples_.empty() ? 1 : samples_.front().symbolic().pools;
    plan_.readout.nodes = make_pool(&SymbolicPlan::node_parts);
    plan_.readout.configurable = make_pool(&SymbolicPlan::configurable_parts);
    if (request_.tied) plan_.readout.tied = make_pool(&SymbolicPlan::tied_parts);
  }

 private:
  void check_size() const {
    if (table_.size() > std::numeric_limits<int32_t>::max() - 8)
      throw DataError("{}: more than {} states in a batch; use fewer candidates or groups", "message plan",
                      std::numeric_limits<int32_t>::max() - 8);
  }

  void begin_level(Sample& sample, const SymbolicPlan::Level& level) {
    sample.below_fixed = std::move(sample.fixed);
    sample.below_first = std::move(sample.first);
    sample.below_states = std::move(sample.states);
    sample.fixed.clear();
    sample.first.clear();
    sample.states.clear();
    sample.fixed.reserve(level.fixed.hash.size());
    int64_t count = 0;
    for (const int32_t q : level.varying.class_of) {
      sample.first.push_back(count);
      count += sample.blocks->count(q);
    }
    sample.states.reserve(count);
  }

  /// Level 0. A state is a node's input with or without a layout.
  void make_first_level() {
    level_ = std::make_shared<PlanLevel>();
    for (Sample& sample : samples_) {
      const auto& symbolic = sample.symbolic();
      const auto& level = symbolic.levels.front();
      begin_level(sample, level);
      for (size_t i = 0; i < level.fixed.hash.size(); ++i) {
        const auto [state, fresh] = table_.intern(level.fixed.hash[i]);
        sample.fixed.push_back(state);
        if (fresh) first_state(sample, level.fixed.input[i], level.fixed.layout_row[i]);
      }
      const auto& layout = sample.entry->layout;
      for (size_t i = 0; i < level.varying.class_of.size(); ++i) {
        const int64_t column = column_of(symbolic, i);
        const auto& first = (*sample.blocks)[level.varying.class_of[i]].first;
        for (const int32_t c : first) {
          const int64_t candidate = sample.candidates[c];
          const int64_t row = layout.row_ptr[column] + layout.codes[candidate * layout.configurable() + column];
          auto hash = combined(level.varying.base[i], symbolic.row_hash[row]);
          if (!merges_) hash = mixed(hash, static_cast<uint64_t>(c) + 1);
          const auto [state, fresh] = table_.intern(hash);
          sample.states.push_back(state);
          if (fresh) first_state(sample, level.varying.input[i], row);
        }
      }
      check_size();
    }
    plan_.levels.push_back(level_);
  }

  static int64_t column_of(const SymbolicPlan& symbolic, int64_t varying) {
    return symbolic.column[symbolic.first_column[varying]];
  }

  void first_state(Sample& sample, int32_t input, int32_t layout_row) {
    const auto& symbolic = sample.symbolic();
    int32_t& row = sample.input_row[input];
    if (row < 0) {
      const auto [number, fresh] = inputs_.intern(symbolic.inputs.hash[input]);
      row = number;
      if (fresh) {
        const auto& graphs = sample.entry->graphs;
        const int64_t v = symbolic.inputs.graph_node[input], width = graphs.feature_count;
        const auto features = graphs.node_features.subspan(v * width, width);
        plan_.node_features.insert(plan_.node_features.end(), features.begin(), features.end());
        plan_.node_types.push_back(graphs.node_types[v]);
        if (request_.collections) plan_.node_collections.push_back(static_cast<uint8_t>(sample.entry->collection));
      }
    }
    level_->node.push_back(row);
    if (layout_row < 0) {
      level_->layout_row.push_back(0);
      return;
    }
    const auto [number, fresh] = layouts_.intern(symbolic.row_hash[layout_row]);
    if (fresh) {
      const auto row_of_layout =
          sample.entry->layout.rows.subspan(layout_row * data::kLayoutFeatures, data::kLayoutFeatures);
      plan_.layout_rows.insert(plan_.layout_rows.end(), row_of_layout.begin(), row_of_layout.end());
    }
    level_->layout_row.push_back(number + 1);
  }

  void make_level(int64_t number) {
    const auto below = level_;
    const StateTable below_table = std::exchange(table_, {});
    level_ = std::make_shared<PlanLevel>();
    auto layer = std::make_shared<PlanLayer>();
    std::vector<Rows> rows(request_.relations.size());
    const auto add_state = [&](int32_t self) {
      layer->self.push_back(self);
      level_->node.push_back(below->node[self]);
      level_->layout_row.push_back(below->layout_row[self]);
      for (Rows& relation : rows) relation.end_row();
    };
    for (Sample& sample : samples_) {
      const auto& level = sample.symbolic().levels[number];
      begin_level(sample, level);
      const auto& fixed = level.fixed;
      for (int64_t i = 0; i < fixed.states(); ++i) {
        const auto [state, fresh] = table_.intern(fixed.hash[i]);
        sample.fixed.push_back(state);
        if (!fresh) continue;
        for (size_t r = 0; r < rows.size(); ++r) {
          const size_t at = static_cast<int64_t>(r) * fixed.states() + i;
          entries_of_row_.clear();
          for (const int64_t e : entries_of(fixed.row_ptr, at))
            entries_of_row_.emplace_back(sample.below_fixed[fixed.columns[e]], fixed.values[e]);
          append_merged(entries_of_row_, rows[r].columns, rows[r].values);
        }
        add_state(sample.below_fixed[fixed.self[i]]);
      }
      const auto& below_class = sample.symbolic().levels[number - 1].varying.class_of;
      for (int64_t i = 0; i < level.varying.nodes(); ++i)
        add_varying(sample, level.varying, below_class, below_table, i, rows, add_state);
      check_size();
    }
    for (Rows& relation : rows) layer->relations.push_back(std::move(relation).finish(below->states()));
    plan_.layers.push_back(std::move(layer));
    plan_.levels.push_back(level_);
  }

  /// The states of one varying node: one for each block of its class.
  template <class AddState>
  void add_varying(Sample& sample, const SymbolicPlan::Varying& varying, const std::vector<int32_t>& below_class,
                   const StateTable& below_table, int64_t i, std::vector<Rows>& rows, const AddState& add_state) {
    const size_t node = i;
    // References, resolved as far as the node goes: the class and the first state of each varying one.
    sources_.clear();
    const auto resolve = [&](int32_t reference, uint64_t key, double value) {
      if (reference < 0) {
        sources_.push_back({nullptr, sample.below_fixed.data() + (-1 - reference), key, value});
      } else {
        const size_t at = reference;
        sources_.push_back({(*sample.blocks)[below_class[at]].of.data(),
                            sample.below_states.data() + sample.below_first[at], key, value});
      }
    };
    resolve(varying.self[node], 0, 0);
    relation_end_.clear();
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t at = static_cast<int64_t>(r) * varying.nodes() + i;
      for (const int64_t e : entries_of(varying.row_ptr, at)) {
        const double value = varying.values[e];
        resolve(varying.columns[e], message_key(r, value), value);
      }
      relation_end_.push_back(sources_.size());
    }
    for (const int32_t c : (*sample.blocks)[varying.class_of[node]].first) {
      StateHash messages = varying.base[node];
      for (size_t s = 1; s < sources_.size(); ++s) {
        if (sources_[s].blocks == nullptr) continue;
        messages = messages + mixed(below_table.hash(sources_[s].state(c)), sources_[s].key);
      }
      const int32_t self = sources_[0].state(c);
      const auto [state, fresh] = table_.intern(combined(below_table.hash(self), messages));
      sample.states.push_back(state);
      if (!fresh) continue;
      size_t s = 1;
      for (size_t r = 0; r < rows.size(); ++r) {
        entries_of_row_.clear();
        for (; s < relation_end_[r]; ++s) entries_of_row_.emplace_back(sources_[s].state(c), sources_[s].value);
        append_merged(entries_of_row_, rows[r].columns, rows[r].values);
      }
      add_state(self);
    }
  }

  using PartList = std::vector<SymbolicPlan::Part> SymbolicPlan::*;

  /// Parts of one pool whose classes divide the candidates into few blocks together: one row for all of them.
  struct PartGroup {
    int32_t pool = 0;
    std::vector<size_t> parts;
    Blocks blocks;          // division of the sample's candidates
    int64_t first_row = 0;  // first row in the stage of groups
  };

  PlanPool make_pool(PartList list) const {
    Rows parts;
    std::vector<std::vector<int64_t>> first_part(
        samples_.size());  // [samples][parts of the symbolic plan] row of block 0
    for (size_t d = 0; d < samples_.size(); ++d) append_parts(samples_[d], list, parts, first_part[d]);
    const int64_t part_rows = parts.count();

    Rows grouped;
    std::vector<std::vector<PartGroup>> groups(samples_.size());
    bool any_grouped = false;
    for (size_t d = 0; d < samples_.size(); ++d) {
      groups[d] = group_parts(samples_[d], list);
      any_grouped = any_grouped || groups[d].size() < first_part[d].size();
      for (PartGroup& group : groups[d]) {
        group.first_row = grouped.count();
        for (const int32_t candidate : group.blocks.first) {
          for (const size_t p : group.parts) {
            const int32_t q = (samples_[d].symbolic().*list)[p].class_of;
            grouped.add(first_part[d][p] + (q < 0 ? 0 : (*samples_[d].blocks)[q].of[candidate]), 1.0);
          }
          grouped.end_row();
        }
      }
    }
    const int64_t group_rows = grouped.count();

    Rows rows;
    for (size_t e = 0; e < entries_.size(); ++e) {
      const auto [d, start] = place_[e];
      const int64_t pools = samples_[d].symbolic().pools;
      for (size_t i = 0; i < entries_[e].candidates.size(); ++i) {
        size_t g = 0;  // groups are in the order of their pools
        for (int64_t pool = 0; pool < pools; ++pool) {
          for (; g < groups[d].size() && groups[d][g].pool == pool; ++g) {
            const PartGroup& group = groups[d][g];
            rows.add(group.first_row + group.blocks.of[start + i], 1.0);
          }
          rows.end_row();
        }
      }
    }
    PlanPool pool;
    pool.stages.push_back(std::move(parts).finish(table_.size()));
    if (any_grouped) pool.stages.push_back(std::move(grouped).finish(part_rows));
    pool.stages.push_back(std::move(rows).finish(any_grouped ? group_rows : part_rows));
    return pool;
  }

  static void append_parts(const Sample& sample, PartList list, Rows& parts, std::vector<int64_t>& first) {
    std::vector<std::pair<int32_t, double>> counts;
    for (const auto& part : sample.symbolic().*list) {
      first.push_back(parts.count());
      const int64_t blocks = part.class_of < 0 ? 1 : sample.blocks->count(part.class_of);
      for (int64_t b = 0; b < blocks; ++b) {
        counts.clear();
        for (size_t i = 0; i < part.members.size(); ++i) {
          const size_t member = part.members[i];
          if (part.class_of < 0) counts.emplace_back(sample.fixed[member], part.counts[i]);
          else counts.emplace_back(sample.states[sample.first[member] + b], part.counts[i]);
        }
        append_merged(counts, parts.columns, parts.values);
        parts.end_row();
      }
    }
  }

  /// Groups parts of the readout. Without groups a candidate's row has an entry for each part. With many candidates it
  /// pays to sum several parts once for all candidates that agree on them.
  static std::vector<PartGroup> group_parts(const Sample& sample, PartList list) {
    const auto candidates = std::ssize(sample.candidates);
    const int64_t limit = candidates < kGroupedFrom ? 0 : candidates / kCandidatesPerGroupRow;
    std::vector<PartGroup> groups;
    const auto& parts = sample.symbolic().*list;
    for (size_t p = 0; p < parts.size(); ++p) {
      const int32_t q = parts[p].class_of;
      if (limit > 0 && !groups.empty() && groups.back().pool == parts[p].pool) {
        auto& blocks = groups.back().blocks;
        if (q < 0 || refine(blocks, (*sample.blocks)[q].of, sample.blocks->count(q), limit)) {
          groups.back().parts.push_back(p);
          continue;
        }
      }
      PartGroup group{parts[p].pool, {p}, {}};
      if (q >= 0) {
        group.blocks = (*sample.blocks)[q];
      } else {
        group.blocks.of.assign(sample.candidates.size(), 0);
        group.blocks.first.assign(sample.candidates.empty() ? 0 : 1, 0);
      }
      groups.push_back(std::move(group));
    }
    return groups;
  }

  static constexpr int64_t kGroupedFrom = 256, kCandidatesPerGroupRow = 8;

  /// Names the source of a varying node's message: states[blocks[candidate]], or states[0] if it is fixed.
  struct Source {
    const int32_t* blocks;
    const int32_t* states;
    uint64_t key;
    double value;
    int32_t state(int32_t candidate) const { return blocks == nullptr ? *states : states[blocks[candidate]]; }
  };

  const std::vector<SharedEntry>& entries_;
  const PlanRequest& request_;
  MessagePlan& plan_;
  bool merges_ = true;
  std::vector<Sample> samples_;
  std::vector<std::pair<size_t, int64_t>> place_;  // [entries] sample, and first candidate in it
  StateTable table_, inputs_, layouts_;
  std::shared_ptr<PlanLevel> level_;
  std::vector<Source> sources_;
  std::vector<size_t> relation_end_;
  std::vector<std::pair<int32_t, double>> entries_of_row_;
};

}  // namespace

void fill_shared_plan(const std::vector<SharedEntry>& entries, const PlanRequest& request, MessagePlan& plan) {
  SharedPlanMaker(entries, request, plan).make();
}

}  // namespace foretime::plans
