#include "models/encoder.h"

#include <vector>

#include <fmt/format.h>

#include "models/csr_ops.h"
#include "models/error.h"
#include "models/feature_columns.h"

namespace foretime::models {

Encoder::Encoder(const configs::ModelSettings& settings, const InputSchema& schema, const Activation& activation)
    : has_layouts_(schema.kind == data::CandidateKind::layout),
      joins_tiles_(schema.kind == data::CandidateKind::tile && settings.tile_join == "early"),
      layout_scale_(settings.features.layout_scale),
      embedding_width_(settings.node_type_embedding),
      width_(settings.hidden) {
  const auto columns = chosen_columns(settings.features.columns, schema.kind, schema.feature_count);
  feature_count_ = static_cast<int64_t>(columns.size());
  if (feature_count_ < schema.feature_count) columns_ = torch::tensor(columns);
  node_transform_ =
      register_module("node_features", std::make_shared<FeatureTransform>(settings.features, feature_count_));
  if (schema.kind == data::CandidateKind::tile) {
    tile_transform_ =
        register_module("tile_features", std::make_shared<FeatureTransform>(settings.features, data::kTileFeatures));
  }
  if (embedding_width_ > 0) make_node_types(settings.node_types.vectors, schema);
  std::vector<int64_t> widths(static_cast<size_t>(settings.encoder_layers) + 1, settings.hidden);
  widths[0] = (has_layouts_ ? data::kLayoutFeatures : 0) + feature_count_ + embedding_width_ +
              (joins_tiles_ ? data::kTileFeatures : 0);
  if (settings.encoder_layers == 0) {
    if (schema.kind != data::CandidateKind::program)
      throw ModelError("model.encoder_layers: 0, expected at least 1 for layout and tile data");
    width_ = widths[0];
    return;
  }
  const DenseOptions options{.bias = true, .activate_last = true, .dropout = settings.dropout};
  dense_ = register_module("dense", std::make_shared<DenseStack>(widths, activation, options));
}

void Encoder::make_node_types(const std::string& vectors, const InputSchema& schema) {
  if (vectors == "learned") {
    node_types_ = register_module("node_types", torch::nn::Embedding(schema.node_type_count, embedding_width_));
    return;
  }
  if (vectors != "fasttext")
    throw ModelError(fmt::format("model.node_types.vectors: '{}', expected learned or fasttext", vectors));
  if (schema.kind != data::CandidateKind::program) {
    throw ModelError(
        "model.node_types.vectors: fasttext, with layout or tile data, whose node types have no names; set it to "
        "learned");
  }
  type_vectors_ = register_buffer("type_vectors", torch::zeros({schema.node_type_count, embedding_width_}));
}

torch::Tensor Encoder::forward(const PlanTensors& plan) {
  const LevelTensors& level = *plan.levels.front();
  const int64_t node_start = has_layouts_ ? data::kLayoutFeatures : 0;
  const int64_t node_width = feature_count_ + embedding_width_;

  auto node_inputs = node_transform_->forward(
      columns_.defined() ? plan.node_features.index_select(1, columns_.to(plan.node_features.device()))
                         : plan.node_features);
  if (embedding_width_ > 0) {
    const auto& table = node_types_ ? node_types_->weight : type_vectors_;
    const auto known = table.narrow(0, 0, plan.node_type_count);
    node_inputs = torch::cat({node_inputs, csr_matmul(plan.node_types, known)}, 1);
  }
  if (!dense_) return csr_matmul(level.node, node_inputs);
  std::vector<CsrTermTensor> terms;
  terms.emplace_back(&level.node, torch::linear(node_inputs, dense_->first_weight(node_start, node_width)));
  if (const auto states = layout(plan, 0); has_layouts_ && states.row_of_state.defined()) {
    terms.emplace_back(&level.layout_row, torch::linear(states.rows, dense_->first_weight(0, data::kLayoutFeatures)));
  }
  if (joins_tiles_) {
    const auto weight = dense_->first_weight(node_start + node_width, data::kTileFeatures);
    terms.emplace_back(&level.candidate, torch::linear(tile_features(plan), weight));
  }
  return dense_->after_first(csr_sum(terms, dense_->first_epilogue()));
}

StateLayout Encoder::layout(const PlanTensors& plan, size_t level) const {
  if (!plan.layout_rows.defined()) return {};
  return {plan.layout_rows * layout_scale_, plan.levels[level]->layout_row};
}

torch::Tensor Encoder::tile_features(const PlanTensors& plan) const {
  return tile_transform_->forward(plan.candidate_features);
}

void Encoder::fit_transform(const InputStatistics& statistics) {
  const auto chosen = [this](const torch::Tensor& statistic) {
    return columns_.defined() && statistic.defined() ? statistic.index_select(0, columns_) : statistic;
  };
  node_transform_->fit(chosen(statistics.minimum), chosen(statistics.maximum), chosen(statistics.mean),
                       chosen(statistics.deviation));
  if (tile_transform_) {
    tile_transform_->fit(statistics.candidate_minimum, statistics.candidate_maximum, statistics.candidate_mean,
                         statistics.candidate_deviation);
  }
  if (!type_vectors_.defined()) return;
  const auto& vectors = statistics.type_vectors;
  if (!vectors.defined() || vectors.sizes() != type_vectors_.sizes()) {
    throw ModelError(fmt::format(
        "vectors of node types: {}, expected {} of {} columns (model.node_type_embedding)",
        vectors.defined() ? fmt::format("{} of {} columns", vectors.size(0), vectors.size(1)) : std::string("none"),
        type_vectors_.size(0), type_vectors_.size(1)));
  }
  const torch::NoGradGuard no_gradient;
  type_vectors_.copy_(vectors);
}

}  // namespace foretime::models
