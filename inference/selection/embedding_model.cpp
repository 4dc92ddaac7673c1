#include "inference/selection/embedding_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/threads.h"
#include "inference/runtime/context.h"

namespace foretime::inference {
namespace {

using Kind = MatrixRef::Kind;

template <class Op>
const Op* made_by(const std::vector<Node>& nodes, Value value) {
  return value.id < kInputs ? nullptr : std::get_if<Op>(&nodes[value.id - kInputs].operation);
}

Value add(std::vector<Node>& nodes, Operation operation) {
  nodes.push_back({std::move(operation)});
  return value_of(nodes.size() - 1);
}

/// Returns the values that an ensemble's score averages; else the score itself.
std::vector<Value> member_scores_of(const Graph& graph) {
  const auto* average = made_by<Average>(graph.score, graph.scores);
  return average == nullptr ? std::vector{graph.scores} : average->inputs;
}

bool scores_by_layers(const Graph& graph) {
  return std::ranges::any_of(graph.score,
                             [](const Node& node) { return std::holds_alternative<Dense>(node.operation); });
}

/// Widths of the values of `embed`.
class EmbedWidths {
 public:
  EmbedWidths(const Graph& graph, const WeightShapes& shapes, int64_t feature_count)
      : widths_("embed", /*groups=*/false, shapes) {
    widths_.provide(kNodeFeatures, feature_count);
    widths_.provide(kLayoutRows, data::kLayoutFeatures);
    widths_.provide(kCandidateFeatures, data::kTileFeatures);
    for (const auto& node : graph.embed)
      std::visit([&](const auto& o) { widths_.begin(o.kName), widths_.add(o.columns(widths_)); }, node.operation);
  }
  int64_t of(Value value) const { return widths_.of(value); }

 private:
  Widths widths_;
};

/// The value of `embed` that has this column of what it gives.
std::optional<Value> value_of_column(const Graph& graph, int64_t column, const EmbedWidths& widths) {
  const auto* join = made_by<Join>(graph.embed, graph.embedded);
  if (join == nullptr) return column == 0 ? std::optional(graph.embedded) : std::nullopt;
  for (const Value input : join->inputs) {
    if (column == 0) return input;
    column -= widths.of(input);
    if (column < 0) break;
  }
  return std::nullopt;
}

/// Returns the value in `embed` of a member's score; nullopt if it is not computed there.
std::optional<Value> scored_in_embed(const Graph& graph, Value score, const EmbedWidths& widths) {
  if (score == kEmbedded) return value_of_column(graph, 0, widths);
  const auto* select = made_by<Select>(graph.score, score);
  if (select == nullptr || select->x != kEmbedded) return std::nullopt;
  return value_of_column(graph, select->chosen.front(), widths);
}

/// Holds the states from which a dense layer computes the costs of statements, and the costs, if a program's score is
/// log Σ exp(costs of statements) + constant. Empty for other graphs.
struct StatementStates {
  Value states, costs;
};
std::optional<StatementStates> statement_states(const std::vector<Node>& nodes, Value score,
                                                const EmbedWidths& widths) {
  std::vector<bool> above(nodes.size() + kInputs, false);  // true: the score depends on the value
  above[score.id] = true;
  for (int32_t at = score.id; at >= kInputs; --at) {
    if (!above[at]) continue;
    const auto& operation = nodes[at - kInputs].operation;
    for (const Value input : inputs_of(operation)) above[input.id] = true;
  }
  for (int32_t at = score.id; at >= kInputs; --at) {
    const auto* layer = made_by<Dense>(nodes, {at});
    if (layer == nullptr || !above[at] || widths.of({at}) != 1) continue;
    for (int32_t later = at + 1; later <= score.id; ++later) {
      const auto* sum = made_by<Add>(nodes, {later});
      if (sum != nullptr && above[later] && std::ranges::count(sum->inputs, Value{at}) > 0)
        return StatementStates{layer->x, {later}};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

/// Adds the hidden state of a member that is scored in `embed`.
std::optional<Value> add_hidden(Graph& graph, Value score, const EmbedWidths& widths) {
  auto& nodes = graph.embed;
  if (const auto* last = made_by<Dense>(nodes, score)) return last->x;
  const auto* total = made_by<Add>(nodes, score);
  if (!graph.statements || total == nullptr) return std::nullopt;
  const double constant = total->constant;
  const auto found = statement_states(nodes, score, widths);
  if (!found) return std::nullopt;
  const Value spread = add(nodes, CsrSum{.matrices = {{Kind::program_of}}, .inputs = {score}});
  const Value logarithm =
      add(nodes, Add{.inputs = {found->costs, spread}, .factors = {1.0, -1.0}, .constant = constant});
  const Value share = add(nodes, Activate{.x = logarithm, .mode = ActivateMode::exp});
  const Value wide = add(nodes, Select{.x = share, .chosen = std::vector<int64_t>(widths.of(found->states), 0)});
  const Value weighted = add(nodes, Multiply{.x = found->states, .z = wide});
  return add(nodes, PoolStates{.x = weighted, .matrix = {Kind::statements_of}});
}

/// Appends columns to the result of `embed`; `score` still reads the original ones.
void append_columns(Graph& graph, const std::vector<Value>& hidden, int64_t columns) {
  std::vector<Value> joined = {graph.embedded};
  joined.insert(joined.end(), hidden.begin(), hidden.end());
  graph.embedded = add(graph.embed, Join{.inputs = std::move(joined)});
  std::vector<int64_t> before(graph.embedded_columns);
  for (size_t c = 0; c < before.size(); ++c) before[c] = c;
  graph.embedded_columns += columns;
  const auto later = [](Value& value) {
    if (value == kEmbedded)
      value = value_of(0);
    else if (value.id >= kInputs)
      ++value.id;
  };
  for (auto& node : graph.score) visit_all<Value>(node.operation, later);
  later(graph.scores);
  graph.score.insert(graph.score.begin(), Node{Select{.x = kEmbedded, .chosen = std::move(before)}});
}

}  // namespace

EmbeddingModel::EmbeddingModel(Bundle bundle, const Options& options) {
  const auto spec = read_scoring_spec(bundle);
  auto graph = spec.graph;
  const auto weights = std::make_shared<const Weights>(bundle.weights);
  if (scores_by_layers(graph)) {
    hidden_columns_ = graph.embedded_columns;
  } else {
    const EmbedWidths widths(graph, shapes_of(*weights), spec.feature_count);
    std::vector<Value> hidden;
    for (const Value score : member_scores_of(graph)) {
      const auto in_embed = scored_in_embed(graph, score, widths);
      const auto state = in_embed ? add_hidden(graph, *in_embed, widths) : std::nullopt;
      if (state) hidden.push_back(*state);
    }
    first_hidden_ = graph.embedded_columns;
    if (!hidden.empty()) {
      const EmbedWidths all(graph, shapes_of(*weights), spec.feature_count);
      for (const Value state : hidden) hidden_columns_ += all.of(state);
      append_columns(graph, hidden, hidden_columns_);
    }
  }
  bundle.manifest["graph"] = to_json(graph);
  model_ = std::make_shared<const Model>(std::move(bundle), options);
  for (const Value score : member_scores_of(graph)) {
    auto of_member = graph;
    of_member.scores = score;
    members_.push_back(std::make_unique<const Executor>(std::move(of_member), weights, spec.feature_count));
  }
}

std::vector<std::vector<float>> EmbeddingModel::member_scores(const Matrix& embedded) const {
  std::vector<std::vector<float>> scores;
  const int64_t group_ptr[] = {0, embedded.rows};
  const OneOpenMpThread guard;
  Workspace workspace;
  for (const auto& member : members_) scores.push_back(member->score(embedded, group_ptr, workspace));
  return scores;
}

std::vector<Matrix> EmbeddingModel::hidden_states(const Matrix& embedded) const {
  const auto members = std::ssize(members_);
  const int64_t blocks = hidden_columns_ % members == 0 ? members : 1, columns = hidden_columns_ / blocks;
  std::vector<Matrix> states;
  for (int64_t block = 0; block < blocks; ++block) {
    Matrix& state = states.emplace_back(Matrix{embedded.rows, columns, {}});
    state.values.resize(state.size());
    for (int64_t r = 0; r < embedded.rows; ++r)
      std::copy_n(embedded.row(r) + first_hidden_ + block * columns, columns, state.row(r));
  }
  return states;
}

}  // namespace foretime::inference
