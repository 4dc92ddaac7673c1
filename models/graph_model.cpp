#include "models/graph_model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "models/autocast.h"
#include "models/layers/edge_dropout.h"

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
  at_least(0, settings.encoder_layers, "model.encoder_layers");
  at_least(1, settings.head_layers, "model.head_layers");
  at_least(0, schema.feature_count, "columns of node features");
  at_least(1, schema.node_type_count, "node types");
  const auto probability = [](double found, const char* setting) {
    if (found < 0 || found >= 1)
      throw ModelError(fmt::format("{}: {}, expected at least 0 and below 1", setting, found));
  };
  probability(settings.dropout, "model.dropout");
  probability(settings.edge_dropout, "model.edge_dropout");
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
  encoder_ = register_module("encoder",
                             std::make_shared<Encoder>(settings, schema, activation_, !propagation_.activates_before));
  width_ = encoder_->width();
  auto layers = register_module("layers", torch::nn::ModuleList());
  size_t hop = 0;
  for (const auto& spec : propagation_.layers) {
    if (propagation_.residual && width_ != settings.hidden) {
      throw ModelError(
          fmt::format("model.encoder_layers: 0, with {} input columns and model.hidden {}: a residual sum "
                      "needs equal widths; set model.residual to false",
                      width_, settings.hidden));
    }
    Layer layer{spec.make(width_), {}, hop, static_cast<size_t>(spec.hops)};
    width_ = settings.hidden;
    for (const auto& relation : spec.relations) {
      const auto known = std::find(relations_.begin(), relations_.end(), relation);
      layer.relations.push_back(static_cast<size_t>(known - relations_.begin()));
      if (known == relations_.end()) relations_.push_back(relation);
    }
    hop += layer.hops;
    layers->push_back(layer.convolution);
    layers_.push_back(std::move(layer));
  }
  if (settings.norm != "none") {
    auto norms = register_module("norms", torch::nn::ModuleList());
    for (size_t i = 0; i < layers_.size(); ++i) {
      norms_.push_back(std::make_shared<Normalization>(settings.norm, settings.hidden));
      norms->push_back(norms_.back());
    }
  }
  std::vector<int64_t> widths(static_cast<size_t>(settings.head_layers) + 1, settings.hidden);
  widths.front() = readout_.width(width_) + (joins_late(settings, schema) ? data::kTileFeatures : 0);
  if (settings.candidate_attention) {
    attention_ = register_module("candidates", std::make_shared<CandidateAttention>());
    widths.front() *= 2;
  }
  widths.back() = 1;
  const DenseOptions options{.bias = settings.head_bias == "all", .activate_last = false, .dropout = settings.dropout};
  head_ = register_module("head", std::make_shared<DenseStack>(widths, activation_, options));
}

plans::PlanRequest GraphModel::plan_request() const {
  auto sharing = plans::Sharing::none;
  if (schema_.kind == data::CandidateKind::layout && !Normalization::breaks_sharing(settings_.norm)) {
    if (settings_.sharing == "states") sharing = plans::Sharing::states;
    if (settings_.sharing == "invariant") sharing = plans::Sharing::invariant;
  }
  const int64_t hops = layers_.empty() ? 0 : static_cast<int64_t>(layers_.back().first_hop + layers_.back().hops);
  return {.layers = hops,
          .relations = relations_,
          .tile_join = joins_late(settings_, schema_) ? plans::TileJoin::late : plans::TileJoin::early,
          .sharing = sharing,
          .tied = readout_.needs_tied(),
          .collections = settings_.collection_embedding > 0};
}

torch::Tensor GraphModel::embed(const PlanTensors& plan) {
  check(plan);
  if (plan.pools != 1) throw ModelError(fmt::format("message plan: {} pools, expected 1", plan.pools));
  auto pooled = readout_(propagate(encoder_->forward(plan), plan), plan);
  return joins_late(settings_, schema_) ? torch::cat({pooled, encoder_->tile_features(plan)}, 1) : pooled;
}

torch::Tensor GraphModel::score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr) {
  // Candidates that differ by less than a bfloat16's 8 bits must keep their order.
  const Autocast full(embedded.device(), /*mixed=*/false);
  auto x = settings_.candidate_norm ? standardized_in_groups(embedded, group_ptr) : embedded;
  if (attention_) x = attention_->forward(x, group_ptr);
  return head_->forward(x).squeeze(-1);
}

torch::Tensor GraphModel::pool(const PlanTensors& plan) {
  check(plan);
  const auto pooled = readout_.pool(propagate(encoder_->forward(plan), plan), plan);
  return pooled.view({-1, plan.pools, pooled.size(1)});
}

torch::Tensor GraphModel::combine_pools(const torch::Tensor& pools, const torch::Tensor& weights) const {
  return readout_.combine(pools, weights, width_);
}

torch::Tensor GraphModel::score_pools(const torch::Tensor& pools) {
  if (schema_.kind != data::CandidateKind::layout) throw ModelError("a graph in pieces, expected layout data");
  if (attention_) throw ModelError("model.candidate_attention: on, with a graph in pieces; set it to false");
  if (settings_.candidate_norm) throw ModelError("model.candidate_norm: on, with a graph in pieces; set it to false");
  const Autocast full(pools.device(), /*mixed=*/false);  // as in score_embedded
  return head_->forward(readout_.finish(pools, width_)).squeeze(-1);
}

torch::Tensor GraphModel::propagate(const torch::Tensor& states, const PlanTensors& plan) {
  torch::Tensor x = states;
  auto layout = layers_.empty() ? StateLayout() : encoder_->layout(plan);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto hops = hops_of(i, plan);
    const size_t below = layers_[i].first_hop, above = below + layers_[i].hops;
    layout.row_of_state = plan.levels[below]->layout_row;
    const double slope = norms_.empty() && !propagation_.activates_before ? activation_.slope() : 1.0;
    auto y = layers_[i].convolution->forward(x, hops, layout, slope);
    if (!norms_.empty()) y = norms_[i]->forward(y, plan, above);
    if (!norms_.empty() && !propagation_.activates_before) y = activation_(y);
    if (settings_.dropout > 0) y = torch::dropout(y, settings_.dropout, is_training());
    x = propagation_.residual ? own_states(x, hops) + y : y;
    if (propagation_.l2_normalize) x = l2_normalized(x);
  }
  return propagation_.activates_before ? activation_(x) : x;
}

std::vector<LayerTensors> GraphModel::hops_of(size_t convolution, const PlanTensors& plan) const {
  const Layer& layer = layers_[convolution];
  std::vector<LayerTensors> hops;
  for (size_t hop = layer.first_hop; hop < layer.first_hop + layer.hops; ++hop) {
    LayerTensors own{{}, plan.layers[hop]->self};
    for (const size_t relation : layer.relations) own.relations.push_back(plan.layers[hop]->relations[relation]);
    const bool drops = settings_.edge_dropout > 0 && is_training();
    hops.push_back(drops ? drop_messages(own, settings_.edge_dropout) : std::move(own));
  }
  return hops;
}

std::string GraphModel::describe_embed(FormWriter& writer) const {
  auto x = encoder_->describe(writer);
  FormLayout layout;
  if (encoder_->has_layouts() && !layers_.empty()) layout.rows = encoder_->describe_layout_rows(writer);
  for (size_t i = 0; i < layers_.size(); ++i) {
    FormHops hops;
    for (size_t hop = layers_[i].first_hop; hop < layers_[i].first_hop + layers_[i].hops; ++hop) {
      FormHop own{{}, fmt::format("layer.{}.self", hop)};
      for (const size_t relation : layers_[i].relations)
        own.relations.push_back(fmt::format("layer.{}.relation.{}", hop, relation));
      hops.push_back(std::move(own));
    }
    layout.row_of_state = fmt::format("level.{}.layout_row", layers_[i].first_hop);
    const double slope = norms_.empty() && !propagation_.activates_before ? activation_.slope() : 1.0;
    auto y = layers_[i].convolution->describe(writer, x, hops, layout, slope);
    if (!norms_.empty()) y = norms_[i]->describe(writer, y);
    if (!norms_.empty() && !propagation_.activates_before) y = writer.activated(y, activation_.slope());
    if (propagation_.residual) {
      for (const auto& hop : hops) x = own_states(writer, x, hop);
      y = writer.add({x, y});
    }
    x = propagation_.l2_normalize ? describe_l2_normalized(writer, y) : y;
  }
  if (propagation_.activates_before) x = writer.activated(x, activation_.slope());
  const auto pooled = readout_.describe(writer, x);
  return joins_late(settings_, schema_) ? writer.join({pooled, encoder_->describe_tile_features(writer)}) : pooled;
}

std::string GraphModel::describe_score(FormWriter& writer, const std::string& embedded) const {
  auto x = settings_.candidate_norm ? describe_standardized(writer, embedded) : embedded;
  if (attention_) x = attention_->describe(writer, x);
  return head_->describe(writer, x);
}

int64_t GraphModel::embedded_columns() const {
  return readout_.width(width_) + (joins_late(settings_, schema_) ? data::kTileFeatures : 0);
}

void GraphModel::check(const PlanTensors& plan) const {
  const auto expect = [](bool condition, const char* what, auto found, auto expected) {
    if (!condition) throw ModelError(fmt::format("message plan: {}: {}, expected {}", what, found, expected));
  };
  expect(plan.node_features.size(1) == schema_.feature_count, "columns of node features", plan.node_features.size(1),
         schema_.feature_count);
  const auto hops = static_cast<size_t>(plan_request().layers);
  expect(plan.layers.size() == hops, "layers", plan.layers.size(), hops);
  for (const auto& layer : plan.layers) {
    expect(layer->relations.size() == relations_.size(), "relations of a layer", layer->relations.size(),
           relations_.size());
  }
  expect(plan.node_type_count <= schema_.node_type_count, "node type", plan.node_type_count - 1,
         fmt::format("below {}", schema_.node_type_count));
  expect(settings_.collection_embedding == 0 || plan.node_collections.defined(), "collections of nodes", "none",
         "some");
  expect(!readout_.needs_tied() || !plan.tied.stages.empty(), "tied nodes", "none", "some");
  const bool tiles = schema_.kind == data::CandidateKind::tile;
  expect(plan.candidate_features.defined() == tiles, "tile features",
         plan.candidate_features.defined() ? "some" : "none", tiles ? "some" : "none");
  const bool by_state = tiles && !joins_late(settings_, schema_);
  expect(!by_state || plan.levels.front()->candidate.defined(), "candidates of states", "none", "one for each state");
  expect(schema_.kind == data::CandidateKind::layout || !plan.layout_rows.defined(), "layout rows", "some", "none");
}

}  // namespace foretime::models
