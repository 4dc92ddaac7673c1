#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "models/graph/graph_builder.h"

namespace foretime::models {

/// Returns the factor of negative numbers in the activation: 0 if model.activation is relu, else model.leaky_slope.
double activation_slope(const configs::ModelSettings& settings);

struct DenseOptions {
  bool bias = true;           // layers have a bias
  bool activate_last = true;  // false: the last layer stays linear
  double dropout = 0.0;       // probability of dropout after each activation, in training
};

/// Applies linear layers with an activation after each. Parameters: NAME.0.weight, NAME.0.bias, NAME.1.weight, …
class DenseStack {
 public:
  DenseStack() = default;
  /// Declares the parameters. `widths` holds the width of the input, then of each layer's output; at least two numbers.
  /// `slope` is the factor of negative numbers in the activations.
  DenseStack(GraphBuilder& builder, const std::string& name, const std::vector<int64_t>& widths, double slope,
             const DenseOptions& options);

  /// Appends all layers to x, [rows, widths.front()] → [rows, widths.back()].
  Value operator()(GraphBuilder& builder, Value x) const;

  /// Returns the first layer's weights, for callers that compute the activated output of that layer for after_first.
  const Linear& first() const { return layers_.front(); }
  /// Returns the factor of negative numbers after the first layer; 1: the layer stays linear.
  double first_slope() const { return slope_of(0); }
  /// Appends the layers after the first one, whose activated output is `first_output`.
  Value after_first(GraphBuilder& builder, Value first_output) const;

 private:
  double slope_of(size_t layer) const { return options_.activate_last || layer + 1 < layers_.size() ? slope_ : 1.0; }

  std::vector<Linear> layers_;
  double slope_ = 1.0;
  DenseOptions options_;
};

/// Normalises states after a convolution: model.norm.
///   layer  each state over its own columns (Ba et al., arXiv 1607.06450)
///   graph  each column over the nodes of a candidate (Cai et al., "GraphNorm", arXiv 2009.03294): y = weight * (x -
///          mean_scale * mean) / deviation + bias. Its statistics make every state depend on the whole candidate, so it
///          needs plans without shared states.
///   batch  each column over all nodes and candidates of the batch (Ioffe and Szegedy, arXiv 1502.03167); in evaluation
///          by running means of these statistics (momentum 0.1), which are buffers. A shared state counts once for each
///          node and candidate that has it, so sharing changes nothing. Each rank uses the statistics of its part of a
///          batch; the trainer averages the running ones over ranks.
/// Parameters: NAME.weight, .bias; for graph also .mean_scale. Buffers of batch: NAME.running_mean, .running_variance.
class Normalization {
 public:
  /// Declares the parameters. `type` must not be none.
  Normalization(GraphBuilder& builder, const std::string& name, configs::Norm type, int64_t width);
  /// Appends the normalisation of x, the states of level `level` of the plan.
  Value operator()(GraphBuilder& builder, Value x, int64_t level) const;
  /// Returns whether the normalisation needs plans in which candidates share no states.
  static bool breaks_sharing(configs::Norm type) { return type == configs::Norm::graph; }

 private:
  configs::Norm type_;
  WeightRef weight_, bias_, mean_scale_, running_mean_, running_variance_;
};

/// Returns whether a buffer of this name is a running mean or variance of batch normalisation, which training changes.
bool is_running_statistic(const std::string& name);

/// Holds the states of the first level, and inputs that later layers read again.
struct EncodedInputs {
  Value states;  // [states of level 0, columns]
  // [distinct rows, columns] layouts after model.features.layout_scale or layout_codes; undefined: no layout data
  Value layout_rows;
  Value tile_features;  // [candidates, 24] after the transform; undefined: no tile data
};

/// Encodes a plan's inputs as the states of its first level, by a dense stack over the joined columns
///   [layout columns (layout data) | node features (model.features.columns) | node-type vector | collection vector |
///    tile features (24, early join)].
/// Layout columns are the 18 numbers of a layout times model.features.layout_scale, or times learned factors
/// (layout_scale), or for each of the 18 a learned vector of its value (layout_codes.weight; values below -1 count as
/// -1, above 6 as 6); zeros if a node is not configurable. With model.layout_gate the states are increased by tanh(G n
/// + g) * (E l), elementwise, for a node's other columns n and its layout columns l, because the effect of a layout
/// depends on its node. The vectors of node types are parameters (node_types.weight) or fixed buffers (type_vectors:
/// model.node_types).
///
/// The first layer is linear in each of these parts, so its output is a sum of products with slices of one weight, each
/// computed once for every distinct row and gathered by state. It equals a linear layer on the joined input without
/// storing that input. With model.encoder_layers 0 the joined columns are the states. `activate_last` applies to the
/// last dense layer. Parameters are named encoder.…; specs of the transforms' buffers are appended to `fits`.
EncodedInputs encode_inputs(GraphBuilder& builder, const configs::ModelSettings& settings, const InputSchema& schema,
                            std::vector<FitSpec>& fits, bool activate_last = true);

/// Computes one row a candidate from the final states: the parts of model.readout, concatenated. mean, sum, max, and
/// normalized_sum (the sum divided by its Euclidean norm) are over all nodes of the candidate's graph; with the prefix
/// configurable_ over its configurable nodes, and 0 if it has none; with the prefix decision_ (not max) over the
/// configurable nodes, where nodes with equivalent decisions count as one (plans/symbolic_plan.h).
class Readout {
 public:
  /// Throws ModelError for an empty list, a repeated part, and parts of configurable nodes if data are not layouts.
  Readout(const std::vector<configs::ReadoutPart>& parts, data::CandidateKind kind);

  /// Appends the readout of `states`, [candidates, columns of all parts]. `nodes` names the pool of all nodes. Adds the
  /// sums and maxima that it uses to `pools`, in the order nodes, configurable, tied.
  Value operator()(GraphBuilder& builder, Value states, std::vector<PooledStates>& pools,
                   const MatrixRef& nodes = {MatrixRef::Kind::nodes}) const;

  /// Returns whether plans must mark nodes with equivalent decisions (plans::PlanRequest::tied).
  bool needs_tied() const;

 private:
  enum class Pooling { mean, sum, max, normalized_sum };
  struct Part {
    Pooling pooling;
    MatrixRef::Kind over;
  };
  std::vector<Part> parts_;
};

/// Returns the indices of the columns of node features that `names` (model.features.columns) select, ascending and each
/// once; all columns if `names` is empty. A name is one of data::loop_column_names for programs as loop graphs, else of
/// data::feature_names, or a prefix followed by `*`. Throws ModelError for a name that no column has, and for any name
/// if the data's feature_count is not that of the known names.
std::vector<int64_t> chosen_columns(const std::vector<std::string>& names, data::CandidateKind kind,
                                    int64_t feature_count);

}  // namespace foretime::models
