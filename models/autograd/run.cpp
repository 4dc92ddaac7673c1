#include "models/autograd/run.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "models/autograd/autocast.h"

namespace foretime::models {
namespace {

using inference::kInputs;
using inference::Node;

/// Returns the nodes that must run to compute `wanted` from `provided` values.
std::vector<bool> needed_nodes(const std::vector<Node>& nodes, const std::vector<Value>& wanted,
                               const AutogradGraph::Provided& provided) {
  std::vector<bool> needed(nodes.size(), false);
  const auto need = [&](Value value) {
    if (value.id >= kInputs && !provided.contains(value)) needed[value.id - kInputs] = true;
  };
  for (const Value value : wanted) need(value);
  for (size_t i = nodes.size(); i-- > 0;)
    if (needed[i]) inference::visit_all<Value>(nodes[i].operation, need);
  return needed;
}

std::vector<int64_t> columns_of(const std::vector<Node>& nodes, inference::Widths& widths,
                                const std::vector<Value>& inputs) {
  std::vector<int64_t> columns(kInputs, 0);
  for (const Value input : inputs) columns[input.id] = widths.of(input);
  for (const Node& node : nodes) {
    columns.push_back(std::visit([&](const auto& o) { return o.columns(widths); }, node.operation));
    widths.add(columns.back());
  }
  return columns;
}

}  // namespace

torch::Tensor AutogradRun::weight(const WeightRef& weight) const {
  return weight.defined() ? graph_.tensors_.at(weight.name) : torch::Tensor();
}

torch::Tensor AutogradRun::weight_columns(const WeightRef& weight, int64_t start, int64_t count) const {
  const auto whole = this->weight(weight);
  if (start == 0 && count == whole.size(1)) return whole;
  const auto parts = graph_.parts_.find(weight.name);
  if (parts == graph_.parts_.end()) return whole.narrow(1, start, count);
  auto& divided = divided_[weight.name];
  if (divided.empty()) {
    std::vector<int64_t> sizes;
    for (const auto& [first, columns] : parts->second) sizes.push_back(columns);
    divided = whole.split_with_sizes(sizes, 1);
  }
  return divided[std::distance(parts->second.begin(), parts->second.find(start))];
}

bool AutogradRun::training() const { return graph_.training; }
bool AutogradRun::statistics_frozen() const { return graph_.statistics_frozen; }
int64_t AutogradRun::columns(Value value) const { return columns_->at(value.id); }

AutogradGraph::AutogradGraph(const ModelGraph& model, const std::map<std::string, torch::Tensor>& tensors,
                             int64_t feature_count)
    : model_(model), tensors_(tensors) {
  inference::WeightShapes shapes;
  for (const auto& spec : model.tensors) shapes[spec.name] = spec.shape;
  inference::Widths embed("embed", false, shapes), score("score", true, shapes);
  embed.provide(inference::kNodeFeatures, feature_count);
  embed.provide(inference::kLayoutRows, data::kLayoutFeatures);
  embed.provide(inference::kCandidateFeatures, data::kTileFeatures);
  score.provide(inference::kEmbedded, model.graph.embedded_columns);
  embed_columns_ = columns_of(model.graph.embed, embed,
                              {inference::kNodeFeatures, inference::kLayoutRows, inference::kCandidateFeatures});
  score_columns_ = columns_of(model.graph.score, score, {inference::kEmbedded});
  find_parts(model.graph.embed, embed_columns_);
  find_parts(model.graph.score, score_columns_);
}

void AutogradGraph::find_parts(const std::vector<Node>& nodes, const std::vector<int64_t>& columns) {
  std::map<std::string, std::map<int64_t, int64_t>> found;
  for (const Node& node : nodes) {
    const auto* dense = std::get_if<inference::Dense>(&node.operation);
    if (dense == nullptr) continue;
    auto& width = found[dense->weight.name][dense->start];
    width = std::max(width, columns[dense->x.id]);
  }
  for (auto& [name, parts] : found) {
    int64_t end = 0;
    for (const auto& [start, width] : parts) end = start == end ? end + width : -1;
    const auto& shape = tensors_.at(name).sizes();
    if (parts.size() > 1 && shape.size() == 2 && end == shape[1]) parts_[name] = std::move(parts);
  }
}

int64_t AutogradGraph::embed_columns(Value value) const { return embed_columns_.at(value.id); }

std::vector<torch::Tensor> AutogradGraph::embed(const PlanTensors* plan, AutogradMatrices* matrices,
                                                const std::vector<Value>& wanted, const Provided& provided) const {
  static const std::vector<int64_t> no_groups;
  AutogradRun run(*this, matrices, no_groups, model_.graph.embed.size());
  run.columns_ = &embed_columns_;
  if (plan) {
    run.at(inference::kNodeFeatures) = plan->node_features;
    run.at(inference::kLayoutRows) = plan->layout_rows;
    run.at(inference::kCandidateFeatures) = plan->candidate_features;
  }
  return this->run(model_.graph.embed, run, wanted, provided);
}

std::vector<torch::Tensor> AutogradGraph::score(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr,
                                                const std::vector<Value>& wanted, const Provided& provided) const {
  AutogradRun run(*this, nullptr, group_ptr, model_.graph.score.size());
  run.columns_ = &score_columns_;
  run.at(inference::kEmbedded) = embedded;
  return this->run(model_.graph.score, run, wanted, provided);
}

std::vector<torch::Tensor> AutogradGraph::run(const std::vector<Node>& nodes, AutogradRun& run,
                                              const std::vector<Value>& wanted, const Provided& provided) const {
  const auto needed = needed_nodes(nodes, wanted, provided);
  std::vector<int> uses(nodes.size() + kInputs, 0);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (needed[i]) inference::visit_all<Value>(nodes[i].operation, [&](Value v) { ++uses[v.id]; });
  for (const Value value : wanted) ++uses[value.id];
  for (const auto& [value, tensor] : provided) run.at(value) = tensor;
  std::optional<Autocast> full;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!needed[i]) continue;
    const Node& node = nodes[i];
    if (node.full_precision != full.has_value()) {
      full.reset();
      if (node.full_precision) full.emplace(tensors_.begin()->second.device(), /*mixed=*/false);
    }
    run.result_ = inference::value_of(i);
    {
      const torch::AutoGradMode gradients(torch::GradMode::is_enabled() && !node.detached);
      run.at(run.result_) = evaluate(node.operation, run);
    }
    inference::visit_all<Value>(node.operation, [&](Value v) {
      if (--uses[v.id] == 0) run.at(v) = torch::Tensor();
    });
  }
  std::vector<torch::Tensor> results;
  for (const Value value : wanted) results.push_back(run.in(value));
  return results;
}

}  // namespace foretime::models
