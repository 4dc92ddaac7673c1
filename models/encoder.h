#pragma once

#include <cstdint>
#include <memory>

#include <torch/torch.h>

#include "models/convolutions.h"
#include "models/dense.h"
#include "models/feature_transform.h"
#include "models/model.h"

namespace foretime::models {

/// From a plan's inputs to the states of its first level: a dense stack over the joined columns
///   [layout features * layout_scale (18, layout data) | node features (model.features.columns) | node-type vector |
///    tile features (24, early join)].
/// The vectors of node types are parameters (node_types.weight), or were made beforehand and are a buffer
/// (type_vectors: model.node_types). The first layer is linear in each of these, so its output is a sum of products
/// with slices of one weight, each taken once for every distinct row and gathered by state: equal to a plain linear
/// layer on the joined input, without ever making that input.
class Encoder : public torch::nn::Module {
 public:
  Encoder(const configs::ModelSettings& settings, const InputSchema& schema, const Activation& activation);

  /// [states of level 0, width()].
  torch::Tensor forward(const PlanTensors& plan);
  /// model.hidden; of programs with model.encoder_layers 0 the number of joined columns, which are then the states.
  int64_t width() const { return width_; }

  /// The layout features of level `level`, scaled.
  StateLayout layout(const PlanTensors& plan, size_t level) const;
  /// The transformed tile features: [candidates, 24].
  torch::Tensor tile_features(const PlanTensors& plan) const;
  void fit_transform(const InputStatistics& statistics);

 private:
  void make_node_types(const std::string& vectors, const InputSchema& schema);

  bool has_layouts_, joins_tiles_;
  double layout_scale_;
  torch::Tensor columns_;  // [feature_count_] int64, of the raw features; undefined: all of them
  int64_t feature_count_, embedding_width_, width_;
  std::shared_ptr<FeatureTransform> node_transform_, tile_transform_;
  torch::nn::Embedding node_types_{nullptr};  // null where type_vectors_ takes its place
  torch::Tensor type_vectors_;                // [node types, embedding_width_]; undefined until fit_transform
  std::shared_ptr<DenseStack> dense_;         // null: no layers
};

}  // namespace foretime::models
