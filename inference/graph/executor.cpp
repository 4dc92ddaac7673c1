#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "inference/graph/graph.h"
#include "inference/runtime/context.h"
#include "inference/runtime/references.h"

namespace foretime::inference {
namespace {

std::vector<std::vector<Value>> releases_of(const std::vector<Node>& nodes, Value last) {
  std::vector<std::vector<Value>> releases(nodes.size());
  std::vector<bool> needed(nodes.size() + kInputs, false);
  needed[last.id] = true;
  for (size_t i = nodes.size(); i-- > 0;) {
    visit_all<Value>(nodes[i].operation, [&](Value input) {
      if (!needed[input.id]) releases[i].push_back(input);
      needed[input.id] = true;
    });
    if (!needed[i + kInputs]) releases[i].push_back(value_of(i));
  }
  return releases;
}

bool reads(const std::vector<Node>& nodes, Value input) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    const auto inputs = inputs_of(node.operation);
    return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
  });
}

}  // namespace

Executor::Executor(Graph graph, std::shared_ptr<const Weights> weights, int64_t feature_count)
    : graph_(std::move(graph)), weights_(std::move(weights)), feature_count_(feature_count) {
  score_columns_ = check_graph(graph_, shapes_of(*weights_), feature_count_);
  assign_slots(graph_.embed);
  assign_slots(graph_.score);
  embed_releases_ = releases_of(graph_.embed, graph_.embedded);
  score_releases_ = releases_of(graph_.score, graph_.scores);
}

void Executor::assign_slots(std::vector<Node>& nodes) {
  for (auto& node : nodes) {
    visit_all<WeightRef>(node.operation, [&](WeightRef& weight) {
      if (!weight.defined()) return;
      weight.slot = slots_.size();
      slots_.push_back(&weights_->at(weight.name));
    });
  }
}

Matrix Executor::run(const std::vector<Node>& nodes, const Releases& releases, Value last, PlanMatrices* matrices,
                     std::span<const int64_t> group_ptr, std::vector<std::pair<Value, Matrix>> inputs,
                     Workspace& workspace) const {
  Run run(slots_, matrices, group_ptr, nodes.size(), workspace);
  for (auto& [value, matrix] : inputs) run.at(value) = std::move(matrix);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::visit(
        [&](const auto& o) {
          run.begin(value_of(i), o.kName);
          run.at(value_of(i)) = o.run(run);
        },
        nodes[i].operation);
    for (const Value value : releases[i]) workspace.give(std::move(run.at(value).values));
  }
  return std::move(run.at(last));
}

Matrix Executor::embed(const plans::MessagePlan& plan, Workspace& workspace) const {
  FORETIME_CHECK(plan.feature_count == feature_count_, "a plan of {} features a node for a model of {}",
                 plan.feature_count, feature_count_);
  FORETIME_CHECK(std::ssize(plan.layers) == graph_.request.layers, "a plan of {} layers for a model of {}",
                 plan.layers.size(), graph_.request.layers);
  PlanMatrices matrices(plan, graph_.statements);
  std::vector<std::pair<Value, Matrix>> inputs;
  const auto give = [&](Value input, const auto& values, int64_t columns) {
    if (!reads(graph_.embed, input) && input != graph_.embedded) return;
    Matrix matrix{std::ssize(values) / std::max<int64_t>(1, columns), columns, workspace.take(values.size())};
    std::copy(values.begin(), values.end(), matrix.values.begin());
    inputs.emplace_back(input, std::move(matrix));
  };
  give(kNodeFeatures, plan.node_features, plan.feature_count);
  static const std::vector<int8_t> no_layout(data::kLayoutFeatures, 0);
  give(kLayoutRows, plan.layout_rows.empty() ? no_layout : plan.layout_rows, data::kLayoutFeatures);
  give(kCandidateFeatures, plan.candidate_features, data::kTileFeatures);
  auto result = run(graph_.embed, embed_releases_, graph_.embedded, &matrices, {}, std::move(inputs), workspace);
  if (result.rows != plan.candidates())
    throw BundleError("graph: {} embedded candidates, expected {}", result.rows, plan.candidates());
  return result;
}

std::vector<float> Executor::score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace,
                                   std::vector<float>* failures) const {
  if (failures != nullptr) failures->clear();
  const int64_t rows = embedded.rows;
  FORETIME_CHECK(embedded.columns == graph_.embedded_columns && !group_ptr.empty() && group_ptr.back() == rows,
                 "{} × {} values of embedded candidates", rows, embedded.columns);
  std::vector<std::pair<Value, Matrix>> inputs;
  inputs.emplace_back(kEmbedded, std::move(embedded));
  auto result = run(graph_.score, score_releases_, graph_.scores, nullptr, group_ptr, std::move(inputs), workspace);
  if (result.rows != rows) throw BundleError("graph: {} scores, expected {}", result.rows, rows);
  for (int64_t i = 0; i < rows && score_columns_ == 2; ++i) {
    if (failures != nullptr) failures->push_back(1.0F / (1.0F + std::exp(-result.row(i)[1])));
    result.values[i] = result.row(i)[0];
  }
  result.values.resize(rows);
  return std::move(result.values);
}

}  // namespace foretime::inference
