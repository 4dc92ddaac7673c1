#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <torch/torch.h>

#include "models/convolutions/convolution.h"
#include "models/layers/dense.h"
#include "models/layers/feature_transform.h"
#include "models/model.h"

namespace foretime::models {

/// From a plan's inputs to the states of its first level: a dense stack over the joined columns
///   [layout columns (layout data) | node features (model.features.columns) | node-type vector | collection vector |
///    tile features (24, early join)].
/// Layout columns are the 18 numbers of a layout times model.features.layout_scale, or times learned factors
/// (layout_scale), or for each of the 18 a learned vector of its value (layout_codes.weight; values below -1 count as
/// -1, above 6 as 6); zeros where a node is not configurable.
/// With model.layout_gate the states also get tanh(G n + g) * (E l), elementwise, of a node's columns n without its
/// layout's, and its layout columns l: what a layout does is a property of the node that has it.
/// The vectors of node types are parameters (node_types.weight), or were made beforehand and are a buffer
/// (type_vectors: model.node_types). The first layer is linear in each of these, so its output is a sum of products
/// with slices of one weight, each taken once for every distinct row and gathered by state: equal to a plain linear
/// layer on the joined input, without ever making that input.
class Encoder : public torch::nn::Module {
 public:
  /// `activate_last`: of the last dense layer.
  Encoder(const configs::ModelSettings& settings, const InputSchema& schema, const Activation& activation,
          bool activate_last = true);

  /// [states of level 0, width()].
  torch::Tensor forward(const PlanTensors& plan);
  /// model.hidden; with model.encoder_layers 0 the number of joined columns, which are then the states.
  int64_t width() const { return width_; }

  /// The layout features of level 0, as the settings make them. Those of another level have its own row_of_state.
  StateLayout layout(const PlanTensors& plan) const;
  /// The transformed tile features: [candidates, 24].
  torch::Tensor tile_features(const PlanTensors& plan) const;
  void fit_transform(const InputStatistics& statistics);

  /// `forward`, `layout` (for states of `level`) and `tile_features` as operations.
  std::string describe(FormWriter& writer) const;
  std::string describe_layout_rows(FormWriter& writer) const;
  std::string describe_tile_features(FormWriter& writer) const;
  bool has_layouts() const { return layout_width_ > 0; }

 private:
  void make_node_types(const std::string& vectors, const InputSchema& schema);

  torch::Tensor layout_rows(const torch::Tensor& rows) const;
  torch::Tensor joined(const PlanTensors& plan, const torch::Tensor& node_inputs) const;

  bool joins_tiles_;
  int64_t layout_width_;  // 0: no layouts
  double layout_scale_;
  torch::Tensor learned_scale_;                                      // [18], or undefined
  torch::nn::Embedding layout_codes_{nullptr};                       // [18 * values, width], or null
  torch::nn::Linear layout_gate_{nullptr}, layout_effect_{nullptr};  // null: layouts have no effect of their own
  torch::Tensor columns_;  // [feature_count_] int64, of the raw features; undefined: all of them
  int64_t feature_count_, embedding_width_, width_;
  std::shared_ptr<FeatureTransform> node_transform_, tile_transform_;
  torch::nn::Embedding collections_{nullptr};  // null: collections are not seen
  torch::nn::Embedding node_types_{nullptr};   // null where type_vectors_ takes its place
  torch::Tensor type_vectors_;                 // [node types, embedding_width_]; undefined until fit_transform
  std::shared_ptr<DenseStack> dense_;          // null: no layers
};

/// Columns that layouts have in such a model: 0 for data without layouts.
int64_t layout_columns(const configs::ModelSettings& settings, const InputSchema& schema);

}  // namespace foretime::models
