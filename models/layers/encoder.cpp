#include "models/layers/encoder.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "models/error.h"
#include "models/layers/feature_columns.h"
#include "models/sparse/csr_ops.h"

namespace foretime::models {
namespace {

constexpr int64_t kLayoutValues = 8, kLeastLayoutValue = -1;  // of a layout's numbers: dimensions, and -1 for none

}  // namespace

int64_t layout_columns(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (schema.kind != data::CandidateKind::layout) return 0;
  const auto& features = settings.features;
  return data::kLayoutFeatures * (features.layout == "embedding" ? features.layout_embedding : 1);
}

Encoder::Encoder(const configs::ModelSettings& settings, const InputSchema& schema, const Activation& activation,
                 bool activate_last)
    : joins_tiles_(schema.kind == data::CandidateKind::tile && settings.tile_join == "early"),
      layout_width_(layout_columns(settings, schema)),
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
  const auto& layout = settings.features.layout;
  if (layout != "scaled" && layout != "learned_scale" && layout != "embedding") {
    throw ModelError(fmt::format("model.features.layout: '{}', expected scaled, learned_scale or embedding", layout));
  }
  if (layout_width_ > 0 && layout == "learned_scale")
    learned_scale_ = register_parameter("layout_scale", torch::full({layout_width_}, layout_scale_));
  if (layout_width_ > 0 && layout == "embedding") {
    layout_codes_ = register_module("layout_codes", torch::nn::Embedding(data::kLayoutFeatures * kLayoutValues,
                                                                         settings.features.layout_embedding));
  }
  if (embedding_width_ > 0) make_node_types(settings.node_types.vectors, schema);
  if (settings.collection_embedding > 0) {
    collections_ =
        register_module("collections", torch::nn::Embedding(data::kCollections, settings.collection_embedding));
  }
  std::vector<int64_t> widths(static_cast<size_t>(settings.encoder_layers) + 1, settings.hidden);
  widths[0] = layout_width_ + feature_count_ + embedding_width_ + settings.collection_embedding +
              (joins_tiles_ ? data::kTileFeatures : 0);
  if (settings.encoder_layers == 0) {
    width_ = widths[0];
    return;
  }
  if (settings.encoder_hidden > 0) std::fill(widths.begin() + 1, widths.end() - 1, settings.encoder_hidden);
  const DenseOptions options{.bias = true, .activate_last = activate_last, .dropout = settings.dropout};
  dense_ = register_module("dense", std::make_shared<DenseStack>(widths, activation, options));
  if (settings.layout_gate && layout_width_ > 0) {
    layout_gate_ = register_module("layout_gate", torch::nn::Linear(widths[0] - layout_width_, width_));
    const auto unbiased = torch::nn::LinearOptions(layout_width_, width_).bias(false);
    layout_effect_ = register_module("layout_effect", torch::nn::Linear(unbiased));
  }
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
  const int64_t node_start = layout_width_;

  auto node_inputs = node_transform_->forward(
      columns_.defined() ? plan.node_features.index_select(1, columns_.to(plan.node_features.device()))
                         : plan.node_features);
  if (embedding_width_ > 0) {
    const auto& table = node_types_ ? node_types_->weight : type_vectors_;
    const auto known = table.narrow(0, 0, plan.node_type_count);
    node_inputs = torch::cat({node_inputs, csr_matmul(plan.node_types, known)}, 1);
  }
  if (collections_) node_inputs = torch::cat({node_inputs, csr_matmul(plan.node_collections, collections_->weight)}, 1);
  const int64_t node_width = node_inputs.size(1);
  if (!dense_) return joined(plan, node_inputs);
  std::vector<CsrTermTensor> terms;
  terms.emplace_back(&level.node, torch::linear(node_inputs, dense_->first_weight(node_start, node_width)));
  const auto layouts = layout(plan);
  const bool some_layouts = layout_width_ > 0 && layouts.row_of_state.defined();
  if (some_layouts)
    terms.emplace_back(&level.layout_row, torch::linear(layouts.rows, dense_->first_weight(0, layout_width_)));
  if (joins_tiles_) {
    const auto weight = dense_->first_weight(node_start + node_width, data::kTileFeatures);
    terms.emplace_back(&level.candidate, torch::linear(tile_features(plan), weight));
  }
  const auto states = dense_->after_first(csr_sum(terms, dense_->first_epilogue()));
  if (!layout_gate_ || !some_layouts) return states;
  const auto gates = csr_matmul(level.node, torch::tanh(layout_gate_->forward(node_inputs)));
  return states + gates * csr_matmul(level.layout_row, layout_effect_->forward(layouts.rows));
}

torch::Tensor Encoder::joined(const PlanTensors& plan, const torch::Tensor& node_inputs) const {
  const LevelTensors& level = *plan.levels.front();
  std::vector<torch::Tensor> columns = {csr_matmul(level.node, node_inputs)};
  if (layout_width_ > 0) {
    const auto states = layout(plan);
    columns.insert(columns.begin(), states.row_of_state.defined()
                                        ? csr_matmul(level.layout_row, states.rows)
                                        : torch::zeros({level.states, layout_width_}, node_inputs.options()));
  }
  if (joins_tiles_) columns.push_back(csr_matmul(level.candidate, tile_features(plan)));
  return torch::cat(columns, 1);
}

StateLayout Encoder::layout(const PlanTensors& plan) const {
  if (!plan.layout_rows.defined()) return {};
  return {layout_rows(plan.layout_rows), plan.levels.front()->layout_row};
}

torch::Tensor Encoder::layout_rows(const torch::Tensor& rows) const {
  if (learned_scale_.defined()) return rows * learned_scale_;
  if (!layout_codes_) return rows * layout_scale_;
  const auto values = (rows.to(torch::kLong) - kLeastLayoutValue).clamp(0, kLayoutValues - 1);
  const auto first = kLayoutValues * torch::arange(data::kLayoutFeatures, values.options());
  const auto vectors = layout_codes_->weight.index_select(0, (values + first).view(-1)).view({rows.size(0), -1});
  // The first row stands for "not configurable", which a layout of zeros is not.
  const auto is_layout = torch::arange(rows.size(0), values.options()).unsqueeze(1) > 0;
  return vectors * is_layout;
}

torch::Tensor Encoder::tile_features(const PlanTensors& plan) const {
  return tile_transform_->forward(plan.candidate_features);
}

std::string Encoder::describe(FormWriter& writer) const {
  std::string features = inference::kNodeFeatures;
  if (columns_.defined()) {
    const auto* first = columns_.data_ptr<int64_t>();
    features = writer.select(features, std::vector<int64_t>(first, first + columns_.numel()));
  }
  std::vector<std::string> columns = {node_transform_->describe(writer, features)};
  const auto lookup = [&](const char* matrix, const torch::Tensor& table) {
    columns.push_back(
        writer.emit({.op = "lookup", .result = {}, .matrices = {matrix}, .weights = {writer.weight(table)}}));
  };
  if (embedding_width_ > 0) lookup("node_types", node_types_ ? node_types_->weight : type_vectors_);
  if (collections_) lookup("collections", collections_->weight);
  const auto node_inputs = writer.join(columns);
  const auto layouts = has_layouts() ? describe_layout_rows(writer) : std::string();
  if (!dense_) {
    columns = {writer.csr_sum({{"level.0.node", node_inputs}})};
    if (has_layouts()) columns.insert(columns.begin(), writer.csr_sum({{"level.0.layout_row", layouts}}));
    if (joins_tiles_) columns.push_back(writer.csr_sum({{"level.0.candidate", describe_tile_features(writer)}}));
    return writer.join(columns);
  }
  const auto weight = dense_->first_weight_name(writer);
  int64_t node_width = feature_count_ + embedding_width_;
  if (collections_) node_width += collections_->weight.size(1);
  std::vector<FormWriter::Term> terms = {{"level.0.node", writer.dense(node_inputs, weight, {}, 1.0, layout_width_)}};
  if (has_layouts()) terms.emplace_back("level.0.layout_row", writer.dense(layouts, weight));
  if (joins_tiles_) {
    terms.emplace_back("level.0.candidate",
                       writer.dense(describe_tile_features(writer), weight, {}, 1.0, layout_width_ + node_width));
  }
  const auto first = writer.csr_sum(terms, dense_->first_bias_name(writer), dense_->first_slope());
  const auto states = dense_->describe_after_first(writer, first);
  if (!layout_gate_) return states;
  const auto gate = writer.activate(
      writer.dense(node_inputs, writer.weight(layout_gate_->weight), writer.weight(layout_gate_->bias)), "tanh");
  const auto effect = writer.dense(layouts, writer.weight(layout_effect_->weight));
  const auto gated =
      writer.multiply(writer.csr_sum({{"level.0.node", gate}}), writer.csr_sum({{"level.0.layout_row", effect}}));
  return writer.add({states, gated});
}

std::string Encoder::describe_layout_rows(FormWriter& writer) const {
  const std::string rows = inference::kLayoutRows;
  if (layout_codes_) {
    return writer.emit({.op = "codes",
                        .result = {},
                        .inputs = {rows},
                        .weights = {writer.weight(layout_codes_->weight)},
                        .numbers = {{"values", static_cast<double>(kLayoutValues)},
                                    {"least", static_cast<double>(kLeastLayoutValue)}}});
  }
  if (!learned_scale_.defined()) return writer.add({rows}, {layout_scale_});
  return writer.emit({.op = "normalize",
                      .result = {},
                      .inputs = {rows},
                      .weights = {writer.weight(learned_scale_), writer.constant(torch::zeros_like(learned_scale_))},
                      .mode = "affine"});
}

std::string Encoder::describe_tile_features(FormWriter& writer) const {
  return tile_transform_->describe(writer, inference::kCandidateFeatures);
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
