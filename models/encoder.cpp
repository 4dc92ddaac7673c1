#include "models/encoder.h"

#include <vector>

#include "models/csr_ops.h"

namespace foretime::models {

Encoder::Encoder(const configs::ModelSettings& settings, const InputSchema& schema, const Activation& activation)
    : has_layouts_(schema.kind == data::CandidateKind::layout),
      joins_tiles_(schema.kind == data::CandidateKind::tile && settings.tile_join == "early"),
      layout_scale_(settings.features.layout_scale),
      feature_count_(schema.feature_count),
      embedding_width_(settings.node_type_embedding) {
  node_transform_ =
      register_module("node_features", std::make_shared<FeatureTransform>(settings.features, feature_count_));
  if (schema.kind == data::CandidateKind::tile) {
    tile_transform_ =
        register_module("tile_features", std::make_shared<FeatureTransform>(settings.features, data::kTileFeatures));
  }
  if (embedding_width_ > 0) {
    node_types_ = register_module("node_types", torch::nn::Embedding(schema.node_type_count, embedding_width_));
  }
  std::vector<int64_t> widths(static_cast<size_t>(settings.encoder_layers) + 1, settings.hidden);
  widths[0] = (has_layouts_ ? data::kLayoutFeatures : 0) + feature_count_ + embedding_width_ +
              (joins_tiles_ ? data::kTileFeatures : 0);
  const DenseOptions options{.bias = true, .activate_last = true, .dropout = settings.dropout};
  dense_ = register_module("dense", std::make_shared<DenseStack>(widths, activation, options));
}

torch::Tensor Encoder::forward(const PlanTensors& plan) {
  const LevelTensors& level = *plan.levels.front();
  const int64_t node_start = has_layouts_ ? data::kLayoutFeatures : 0;
  const int64_t node_width = feature_count_ + embedding_width_;

  auto node_inputs = node_transform_->forward(plan.node_features);
  if (embedding_width_ > 0) {
    const auto known = node_types_->weight.narrow(0, 0, plan.node_type_count);
    node_inputs = torch::cat({node_inputs, csr_matmul(plan.node_types, known)}, 1);
  }
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
  node_transform_->fit(statistics.minimum, statistics.maximum, statistics.mean, statistics.deviation);
  if (tile_transform_) {
    tile_transform_->fit(statistics.candidate_minimum, statistics.candidate_maximum, statistics.candidate_mean,
                         statistics.candidate_deviation);
  }
}

}  // namespace foretime::models
