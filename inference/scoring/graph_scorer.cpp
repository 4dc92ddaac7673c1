#include "inference/scoring/graph_scorer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/threads.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/graphs/pruning.h"
#include "data/graphs/validate.h"

namespace foretime::inference {
namespace {

constexpr size_t kRow = data::kLayoutFeatures;
constexpr size_t kMostRows = 256;
constexpr size_t kSlots = 1024;  // a power of two, so that a full table is a quarter full

uint64_t hash_of(const int8_t* row) {
  static_assert(kRow == 18);
  uint64_t a = 0, b = 0;
  uint16_t c = 0;
  std::memcpy(&a, row, 8);
  std::memcpy(&b, row + 8, 8);
  std::memcpy(&c, row + 16, 2);
  const uint64_t hash = (a ^ std::rotl(b, 29) ^ c * 0xD6E8FEB86659FD93U) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 32;
}

/// The distinct rows of one node.
struct Table {
  std::vector<int8_t> rows;
  std::array<uint16_t, kSlots> slots{};  // code + 1; 0: free
  uint8_t last = 0;                      // code of the row before
  int64_t newest = -1;                   // the candidate that brought the last of the rows

  size_t count() const { return rows.size() / kRow; }
  bool has(size_t code, const int8_t* row) const { return std::memcmp(rows.data() + code * kRow, row, kRow) == 0; }

  /// Sets `code` to the code of a row, added to the table if necessary. Returns false if the table is full.
  bool code(const int8_t* row, int64_t candidate, uint8_t& code) {
    if (!rows.empty() && has(last, row)) {
      code = last;
      return true;
    }
    size_t slot = hash_of(row) % kSlots;
    for (; slots[slot] != 0; slot = (slot + 1) % kSlots) {
      if (has(slots[slot] - 1U, row)) {
        code = last = slots[slot] - 1U;
        return true;
      }
    }
    if (count() == kMostRows) return false;
    code = last = count();
    rows.insert(rows.end(), row, row + kRow);
    slots[slot] = code + 1U;
    newest = candidate;
    return true;
  }

  /// Forgets the row that `candidate` brought, if it did. No more rows can be coded then.
  void take_back(int64_t candidate) {
    if (newest == candidate) rows.resize(rows.size() - kRow);
  }
};

/// Codes of the candidates that fit: all, or those before the one for which the table of node `full` is full, and whose
/// rows are not kept.
std::vector<uint8_t> code_rows(std::vector<Table>& tables, std::span<const int8_t> layouts, int64_t candidates,
                               int64_t& full) {
  std::vector<uint8_t> codes;
  const int8_t* row = layouts.data();
  for (int64_t c = 0; c < candidates; ++c) {
    const size_t first = codes.size();
    codes.resize(first + tables.size());
    for (size_t j = 0; j < tables.size(); ++j, row += kRow) {
      if (tables[j].code(row, c, codes[first + j])) continue;
      for (size_t k = 0; k < j; ++k) tables[k].take_back(c);
      codes.resize(first);
      full = j;
      return codes;
    }
  }
  return codes;
}

// Pieces are small enough for several threads to have some, and for a piece's values to stay in a core's caches; plans
// that share states gain by more candidates.
constexpr int64_t kPieceStates = 8192;
constexpr int64_t kFirstShared = 128, kMostShared = 1024;

/// Pieces of a list of candidates: the first one, whose plan tells how large the others may be, and the others.
class Pieces {
 public:
  Pieces(const Model& model, const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
         std::span<const int64_t> ids)
      : model_(model),
        group_(group),
        source_(source),
        ids_(ids),
        shares_(source->symbolic != nullptr),
        limit_(shares_ ? model.options().max_states : std::min(model.options().max_states, kPieceStates)),
        size_(group, *source, limit_) {
    result_.columns = model.spec().graph.embedded_columns;
    result_.rows = ids.size();
    result_.values.resize(result_.size());
  }

  /// [ids, embedded columns]
  inference::Matrix embed() && {
    size_t done = 0;
    if (shares_ && !ids_.empty()) {
      inference::Workspace workspace;
      const OneOpenMpThread guard;
      done = std::min<size_t>(ids_.size(), std::min(size_.candidates(), kFirstShared));
      size_.observe(embed_piece(0, done, workspace));
    }
    const size_t step = shares_ ? std::min(size_.candidates(), kMostShared) : size_.candidates();
    const size_t parts = (ids_.size() - done + step - 1) / step;
    parallel_for(parts, model_.options().threads, [&] {
      return [&, workspace = std::make_shared<inference::Workspace>()](int64_t part) {
        const size_t first = done + part * step;
        embed_piece(first, std::min(step, ids_.size() - first), *workspace);
      };
    });
    return std::move(result_);
  }

 private:
  /// Embeds ids_[first …] and returns the plan, halving pieces whose plans are far too large: what candidates share is
  /// only known when their plan is there.
  plans::MessagePlan embed_piece(size_t first, size_t count, inference::Workspace& workspace) {
    plans::PlanBuilder builder(source_->request);
    builder.add(group_, ids_.subspan(first, count), source_);
    auto plan = std::move(builder).build();
    if (count > 1 && plans::PieceSize::load(plan) > 2 * limit_) {
      plan = {};
      embed_piece(first, count / 2, workspace);
      return embed_piece(first + count / 2, count - count / 2, workspace);
    }
    auto embedded = model_.executor().embed(plan, workspace);
    std::copy_n(embedded.values.begin(), embedded.size(), result_.row(first));
    workspace.give(std::move(embedded.values));
    return plan;
  }

  const Model& model_;
  const data::Group& group_;
  const std::shared_ptr<const plans::PlanSource>& source_;
  std::span<const int64_t> ids_;
  bool shares_;
  int64_t limit_;
  plans::PieceSize size_;
  inference::Matrix result_;
};

void expect_graphs(const Model& model) {
  if (model.kind() != ModelKind::layout && model.kind() != ModelKind::tile)
    throw WrongKind("found a model of {}, expected one of layouts or tiles to score graphs", kind_name(model.kind()));
  if (!model.spec().columns.empty())
    throw WrongKind(
        "found a model of a table, expected one of layouts or tiles to score graphs: "
        "this model scores tables of its columns, which foretime data pack-table --like packs");
}

/// The group with one candidate that says nothing, for what looks at groups as a whole.
data::Group with_candidate(data::Group group) {
  group.candidates = 1;
  group.runtimes = std::vector<double>{0.0};
  group.flops = {};
  group.candidate_ids = {};
  group.tile_features = {};
  if (group.kind == data::CandidateKind::tile) {
    group.tile_features = std::vector<float>(data::kTileFeatures, 0.0F);
    group.layout = {};
    return group;
  }
  const size_t configurable = group.layout.configurable();
  std::vector<int64_t> row_ptr(configurable + 1);
  std::iota(row_ptr.begin(), row_ptr.end(), 0);
  group.layout.row_ptr = std::move(row_ptr);
  group.layout.rows = std::vector<int8_t>(configurable * data::kLayoutFeatures, 0);
  group.layout.codes = std::vector<uint8_t>(configurable, 0);
  return group;
}

std::vector<int64_t> first_numbers(int64_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

CodedLayouts code_layouts(Array<int32_t> nodes, std::span<const int8_t> layouts, int64_t candidates) {
  std::vector<Table> tables(nodes.size());
  CodedLayouts result;
  auto codes = code_rows(tables, layouts, candidates, result.full);
  result.candidates = result.full < 0 ? candidates : std::ssize(codes) / nodes.size();
  std::vector<int64_t> row_ptr = {0};
  std::vector<int8_t> rows;
  for (const Table& table : tables) {
    rows.insert(rows.end(), table.rows.begin(), table.rows.end());
    row_ptr.push_back(row_ptr.back() + table.count());
  }
  result.layout.nodes = std::move(nodes);
  result.layout.row_ptr = std::move(row_ptr);
  result.layout.rows = std::move(rows);
  result.layout.codes = std::move(codes);
  return result;
}

std::vector<float> score_candidates(const Model& model, const data::Group& group,
                                    const std::shared_ptr<const plans::PlanSource>& source,
                                    std::span<const int64_t> candidates, std::vector<float>* failures) {
  if (failures != nullptr) failures->clear();
  if (candidates.empty()) return {};
  const auto distinct = data::distinct_candidates(group, candidates);
  auto embedded = Pieces(model, group, source, distinct.ids).embed();
  if (distinct.ids.size() != candidates.size()) {
    // Models that compare candidates count equal configurations separately.
    inference::Matrix all{std::ssize(candidates), embedded.columns, {}};
    all.values.resize(all.size());
    for (size_t i = 0; i < candidates.size(); ++i)
      std::copy_n(embedded.row(distinct.place[i]), embedded.columns, all.row(i));
    embedded = std::move(all);
  }
  const OneOpenMpThread guard;
  inference::Workspace workspace;
  const int64_t group_ptr[] = {0, embedded.rows};
  return model.executor().score(std::move(embedded), group_ptr, workspace, failures);
}

GraphScorer::GraphScorer(std::shared_ptr<const Model> model, data::Group group) : model_(std::move(model)) {
  expect_graphs(*model_);
  group = with_candidate(std::move(group));
  data::validate_group(group, group.name);
  model_->check_graphs(group);
  nodes_ = group.graphs.nodes();
  configurable_ = group.layout.nodes;
  group_ = data::pruned_group(group, model_->spec().prune_hops);
  const auto& request = model_->spec().graph.request;
  const bool by_layouts = model_->kind() == ModelKind::layout && request.sharing != plans::Sharing::none;
  source_ = by_layouts ? plans::prepare_plan_source(group_, request) : plans::make_plan_source(group_, request);
}

std::shared_ptr<const plans::PlanSource> GraphScorer::source_of(const data::Group& group) const {
  constexpr int64_t kFew = 32;
  const auto& request = model_->spec().graph.request;
  if (request.sharing == plans::Sharing::none) return source_;
  if (source_ && group.candidates <= kFew) return plans::complete_plan_source(*source_, group.layout);
  return plans::make_plan_source(group, request);
}

GraphScorer GraphScorer::from_hlo(std::shared_ptr<const Model> model, std::string_view bytes) {
  expect_graphs(*model);
  const data::HloFile file(bytes, "HLO module");
  if (file.message() == data::HloMessage::tuning)
    throw DataError("HLO module: TuningData with modules, expected HloModuleProto, HloProto or ModuleTuningData");
  const auto kind = model->spec().kind;
  return {std::move(model), data::read_hlo_graph(file, file.modules().front(), kind)};
}

std::vector<float> GraphScorer::score_layouts(std::span<const int8_t> layouts, int64_t candidates) const {
  if (model_->kind() != ModelKind::layout) throw WrongKind("found a model of tiles, expected a model of layouts");
  if (candidates == 0) return {};
  const auto row = configurable_.size() * data::kLayoutFeatures;
  std::vector<float> scores;
  for (int64_t first = 0; first < candidates;) {
    auto coded = code_layouts(group_.layout.nodes, layouts.subspan(first * row), candidates - first);
    if (coded.full >= 0 && model_->spec().compares_candidates)
      throw DataError(
          "layouts: candidate {} has the 257th distinct layout of node {}, "
          "expected at most 256 in one call of a model that compares candidates",
          coded.candidates, configurable_[coded.full]);
    data::Group group = group_;
    group.candidates = coded.candidates;
    group.layout = std::move(coded.layout);
    const auto some = score_candidates(*model_, group, source_of(group), first_numbers(coded.candidates));
    scores.insert(scores.end(), some.begin(), some.end());
    first += coded.candidates;
  }
  return scores;
}

std::vector<float> GraphScorer::score_tiles(std::span<const float> tiles, int64_t candidates) const {
  if (model_->kind() != ModelKind::tile) throw WrongKind("found a model of layouts, expected a model of tiles");
  if (candidates == 0) return {};
  if (const int64_t wrong = data::first_not_finite(tiles); wrong >= 0)
    throw DataError("tiles: {} at candidate {}, column {}, expected finite numbers", tiles[wrong],
                    wrong / data::kTileFeatures, wrong % data::kTileFeatures);
  data::Group group = group_;
  group.candidates = candidates;
  group.tile_features = Array<float>(tiles, nullptr);  // the caller's, as long as this call
  return score_candidates(*model_, group, source_, first_numbers(candidates));
}

}  // namespace foretime::inference
