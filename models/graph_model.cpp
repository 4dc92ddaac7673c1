#include "models/graph_model.h"

#include <utility>

#include <fmt/format.h>

#include "models/autocast.h"

namespace foretime::models {
namespace {

void at_least(int64_t least, int64_t found, const char* setting) {
  if (found < least) throw ModelError(fmt::format("{}: {}, expected at least {}", setting, found, least));
}

bool joins_late(const configs::ModelSettings& settings, const InputSchema& schema) {
  return schema.kind == data::CandidateKind::tile && settings.tile_join == "late";
}

const configs::ModelSettings& checked(const configs::ModelSettings& settings, const InputSchema& schema) {
  at_least(1, settings.hidden, "model.hidden");
  at_least(0, settings.layers, "model.layers");
  at_least(0, settings.node_type_embedding, "model.node_type_embedding");
  at_least(1, settings.encoder_layers, "model.encoder_layers");
  at_least(1, settings.head_layers, "model.head_layers");
  at_least(0, schema.feature_count, "columns of node features");
  at_least(1, schema.node_type_count, "node types");
  if (settings.dropout < 0 || settings.dropout >= 1) {
    throw ModelError(fmt::format("model.dropout: {}, expected at least 0 and below 1", settings.dropout));
  }
  if (settings.tile_join != "early" && settings.tile_join != "late") {
    throw ModelError(fmt::format("model.tile_join: '{}', expected early or late", settings.tile_join));
  }
  if (Normalization::breaks_sharing(settings.norm) && joins_late(settings, schema)) {
    throw ModelError("model.norm: graph, with model.tile_join late, where candidates have no states of their own");
  }
  if (settings.head_bias != "none" && settings.head_bias != "all") {
    throw ModelError(fmt::format("model.head_bias: '{}', expected none or all", settings.head_bias));
  }
  return settings;
}

}  // namespace

GraphModel::GraphModel(const configs::ModelSettings& settings, const InputSchema& schema, Propagation propagation)
    : settings_(checked(settings, schema)),
      schema_(schema),
      propagation_(std::move(propagation)),
      activation_(settings),
      readout_(settings.readout, schema.kind) {
  encoder_ = register_module("encoder", std::make_shared<Encoder>(settings, schema, activation_));
  auto layers = register_module("layers", torch::nn::ModuleList());
  for (int64_t i = 0; i < propagation_.layers; ++i) {
    convolutions_.push_back(propagation_.make_convolution());
    layers->push_back(convolutions_.back());
  }
  if (settings.norm != "none") {
    auto norms = register_module("norms", torch::nn::ModuleList());
    for (int64_t i = 0; i < propagation_.layers; ++i) {
      norms_.push_back(std::make_shared<Normalization>(settings.norm, settings.hidden));
      norms->push_back(norms_.back());
    }
  }
  std::vector<int64_t> widths(static_cast<size_t>(settings.head_layers) + 1, settings.hidden);
  widths.front() = readout_.width(settings.hidden) + (joins_late(settings, schema) ? data::kTileFeatures : 0);
  widths.back() = 1;
  const DenseOptions options{.bias = settings.head_bias == "all", .activate_last = false, .dropout = settings.dropout};
  head_ = register_module("head", std::make_shared<DenseStack>(widths, activation_, options));
}

data::PlanRequest GraphModel::plan_request() const {
  auto sharing = data::Sharing::none;
  if (schema_.kind == data::CandidateKind::layout && !Normalization::breaks_sharing(settings_.norm)) {
    if (settings_.sharing == "states") sharing = data::Sharing::states;
    if (settings_.sharing == "invariant") sharing = data::Sharing::invariant;
  }
  return {propagation_.layers, propagation_.relations,
          joins_late(settings_, schema_) ? data::TileJoin::late : data::TileJoin::early, sharing};
}

torch::Tensor GraphModel::score(const PlanTensors& plan) {
  check(plan);
  if (plan.pools != 1) throw ModelError(fmt::format("message plan: {} pools, expected 1", plan.pools));
  auto pooled = readout_(propagate(encoder_->forward(plan), plan), plan);
  if (joins_late(settings_, schema_)) pooled = torch::cat({pooled, encoder_->tile_features(plan)}, 1);
  // Candidates that differ by less than a bfloat16's 8 bits must keep their order.
  const Autocast full(pooled.device(), /*mixed=*/false);
  return head_->forward(pooled).squeeze(-1);
}

torch::Tensor GraphModel::pool(const PlanTensors& plan) {
  check(plan);
  const auto pooled = readout_.pool(propagate(encoder_->forward(plan), plan), plan);
  return pooled.view({-1, plan.pools, pooled.size(1)});
}

torch::Tensor GraphModel::combine_pools(const torch::Tensor& pools, const torch::Tensor& weights) const {
  return readout_.combine(pools, weights, settings_.hidden);
}

torch::Tensor GraphModel::score_pools(const torch::Tensor& pools) {
  if (schema_.kind != data::CandidateKind::layout) throw ModelError("a graph in pieces, expected layout data");
  const Autocast full(pools.device(), /*mixed=*/false);  // as in score
  return head_->forward(readout_.finish(pools, settings_.hidden)).squeeze(-1);
}

torch::Tensor GraphModel::propagate(const torch::Tensor& states, const PlanTensors& plan) {
  torch::Tensor x = states;
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    const double slope = norms_.empty() ? activation_.slope() : 1.0;
    auto y = convolutions_[i]->forward(x, *plan.layers[i], encoder_->layout(plan, i), slope);
    if (!norms_.empty()) y = activation_(norms_[i]->forward(y, plan));
    if (settings_.dropout > 0) y = torch::dropout(y, settings_.dropout, is_training());
    x = propagation_.residual ? own_states(x, *plan.layers[i]) + y : y;
    if (propagation_.l2_normalize) x = l2_normalized(x);
  }
  return x;
}

void GraphModel::check(const PlanTensors& plan) const {
  const auto expect = [](bool condition, const char* what, auto found, auto expected) {
    if (!condition) throw ModelError(fmt::format("message plan: {}: {}, expected {}", what, found, expected));
  };
  expect(plan.node_features.size(1) == schema_.feature_count, "columns of node features", plan.node_features.size(1),
         schema_.feature_count);
  expect(plan.layers.size() == convolutions_.size(), "layers", plan.layers.size(), convolutions_.size());
  for (const auto& layer : plan.layers) {
    expect(layer->relations.size() == propagation_.relations.size(), "relations of a layer", layer->relations.size(),
           propagation_.relations.size());
  }
  expect(plan.node_type_count <= schema_.node_type_count, "node type", plan.node_type_count - 1,
         fmt::format("below {}", schema_.node_type_count));
  const bool tiles = schema_.kind == data::CandidateKind::tile;
  expect(plan.candidate_features.defined() == tiles, "tile features",
         plan.candidate_features.defined() ? "some" : "none", tiles ? "some" : "none");
  const bool by_state = tiles && !joins_late(settings_, schema_);
  expect(!by_state || plan.levels.front()->candidate.defined(), "candidates of states", "none", "one for each state");
  expect(schema_.kind == data::CandidateKind::layout || !plan.layout_rows.defined(), "layout rows", "some", "none");
}

}  // namespace foretime::models
