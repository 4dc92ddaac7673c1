#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "models/graph/graph_builder.h"

namespace foretime::models {

/// What negative numbers are multiplied by: model.activation, model.leaky_slope.
double activation_slope(const configs::ModelSettings& settings);

struct DenseOptions {
  bool bias = true;
  bool activate_last = true;  // false: the last layer stays linear
  double dropout = 0.0;       // after each activation, in training
};

/// Linear layers with an activation after each. Parameters: 0.weight, 0.bias, 1.weight, … below `name`.
class DenseStack {
 public:
  DenseStack() = default;
  /// widths: input, then output of each layer; at least one layer.
  DenseStack(GraphBuilder& builder, const std::string& name, const std::vector<int64_t>& widths, double slope,
             const DenseOptions& options);

  Value operator()(GraphBuilder& builder, Value x) const;

  /// For callers that have a cheaper way to the first layer's output than from the joined input: they multiply slices
  /// of its weight on their own, add them up with its bias and slope, and hand the result to after_first.
  const Linear& first() const { return layers_.front(); }
  double first_slope() const { return slope_of(0); }
  Value after_first(GraphBuilder& builder, Value first_output) const;

 private:
  double slope_of(size_t layer) const { return options_.activate_last || layer + 1 < layers_.size() ? slope_ : 1.0; }

  std::vector<Linear> layers_;
  double slope_ = 1.0;
  DenseOptions options_;
};

/// Normalisation of states after a convolution: model.norm.
///   layer  each state over its own columns (Ba et al., arXiv 1607.06450)
///   graph  each column over the nodes of a candidate (Cai et al., "GraphNorm", arXiv 2009.03294): y = weight * (x -
///          mean_scale * mean) / deviation + bias. Its statistics make every state depend on the whole candidate, so it
///          needs plans without shared states, one state for each node and candidate.
///   batch  each column over all nodes and candidates of the batch (Ioffe and Szegedy, arXiv 1502.03167), in evaluation
///          by running means of these statistics (momentum 0.1), which are buffers. States that a plan shares count as
///          often as nodes and candidates have them, so sharing changes nothing. Each rank has the statistics of its
///          own part of a batch; the trainer averages the running ones over ranks.
/// Parameters below `name`: weight, bias; of graph also mean_scale. Buffers of batch: running_mean, running_variance.
class Normalization {
 public:
  /// `type` is not none.
  Normalization(GraphBuilder& builder, const std::string& name, configs::Norm type, int64_t width);
  /// x: the states of `level` of the plan.
  Value operator()(GraphBuilder& builder, Value x, int64_t level) const;
  static bool breaks_sharing(configs::Norm type) { return type == configs::Norm::graph; }

 private:
  configs::Norm type_;
  WeightRef weight_, bias_, mean_scale_, running_mean_, running_variance_;
};

/// Whether a buffer of this name is one that training changes: a running mean or variance of batch normalisation.
bool is_running_statistic(const std::string& name);

/// What the first level of states is made of, and what later layers read again.
struct EncodedInputs {
  Value states;         // [states of level 0, columns]
  Value layout_rows;    // [distinct rows, columns] layouts as the settings make them; undefined: none
  Value tile_features;  // [candidates, 24] transformed; undefined: none
};

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
/// layer on the joined input, without ever making that input. With model.encoder_layers 0 the joined columns are the
/// states. `activate_last`: of the last dense layer. Parameters are named encoder.….
EncodedInputs encode_inputs(GraphBuilder& builder, const configs::ModelSettings& settings, const InputSchema& schema,
                            std::vector<FitSpec>& fits, bool activate_last = true);

/// From final states to one row a candidate: the parts of model.readout, side by side. mean, sum, max, and
/// normalized_sum (the sum over its Euclidean norm) are over all nodes of the candidate's graph; with the prefix
/// configurable_ over the configurable ones, and 0 where a graph has none; with the prefix decision_ (sum, mean and
/// normalized_sum only) likewise, nodes that take equivalent decisions counting as one (plans/symbolic_plan.h).
class Readout {
 public:
  /// Throws ModelError for a repeated part, for none at all, and for configurable_ and decision_ parts of data without
  /// layouts.
  Readout(const std::vector<configs::ReadoutPart>& parts, data::CandidateKind kind);

  /// `nodes`: what takes the place of all nodes. What is pooled is added to `pools`, in the order nodes, configurable,
  /// tied.
  Value operator()(GraphBuilder& builder, Value states, std::vector<PooledStates>& pools,
                   const MatrixRef& nodes = {MatrixRef::Kind::nodes}) const;

  /// Whether plans must know which nodes are tied (plans::PlanRequest::tied).
  bool needs_tied() const;

 private:
  enum class Pooling { mean, sum, max, normalized_sum };
  struct Part {
    Pooling pooling;
    MatrixRef::Kind over;
  };
  std::vector<Part> parts_;
};

/// The columns of node features that model.features.columns names, ascending. A name is one of data::feature_names, or
/// the beginning of several followed by `*`; no names at all: every column. Throws ModelError for names that the data
/// do not have, and for features that are not those of data::feature_names.
std::vector<int64_t> chosen_columns(const std::vector<std::string>& names, data::CandidateKind kind,
                                    int64_t feature_count);

}  // namespace foretime::models
