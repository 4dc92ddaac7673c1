#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "models/graph/graph_builder.h"

namespace foretime::models {

/// What a model is fed: fixed by the kind of data, stored with every checkpoint.
struct InputSchema {
  data::CandidateKind kind = data::CandidateKind::layout;
  int64_t feature_count = 0;    // columns of node_features
  int64_t node_type_count = 0;  // node types are below this
  bool operator==(const InputSchema&) const = default;
};

/// Buffers that are set from statistics of the training data (CostModel::fit_transform).
struct FitSpec {
  enum class Of : uint8_t {
    node_features,  // offset and scale of the chosen columns, as `features` asks for
    tile_features,
    loop_columns,  // by kind of node, to mean 0 and deviation 1
    type_vectors,  // `offset` becomes the vectors of node types
  };
  Of of;
  WeightRef offset, scale;
  configs::FeatureSettings features = {};
  std::vector<int64_t> columns = {};  // of the raw node features
};

/// What a readout pools over one set of nodes.
struct PooledStates {
  MatrixRef pool;
  Value sum, maximum;  // undefined: not needed
};

/// A model before it has weights: what build functions give.
struct ModelGraph {
  inference::Graph graph = {};
  std::vector<TensorSpec> tensors = {};  // in the order in which they are drawn
  std::vector<FitSpec> fits = {};
  std::vector<Value> member_scores = {};  // of `score`: each member's, of which `scores` is the mean
  /// Of each member, where `score` reads it apart: what `embed` gives for it alone, and where `score` selects it.
  struct MemberStates {
    Value embedded, selected;
  };
  std::vector<MemberStates> member_states = {};
  bool members_are_models = false;       // each member could be a model of its own
  std::vector<PooledStates> pools = {};  // of a graph in pieces (CostModel::pool)
  std::string whole_graphs_only = {};    // why graphs cannot be scored in pieces; empty: they can
  double edge_dropout = 0.0;
  std::vector<std::vector<MatrixRef>> drop_sets =
      {};  // MatrixRef::drop_set: matrices whose messages are dropped together
};

}  // namespace foretime::models
