#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "inference/graph/graph.h"
#include "models/graph/error.h"

namespace foretime::models {

using inference::MatrixRef;
using inference::Value;
using inference::WeightRef;

/// How a parameter's values start.
struct Initial {
  enum class Kind : uint8_t {
    constant,       // `number`
    linear_weight,  // of torch::nn::Linear
    linear_bias,    // uniform up to 1 / sqrt(`number`), the layer's inputs
    normal,         // mean 0, deviation 1, as torch::nn::Embedding
    xavier_uniform,
    uniform,  // from -`number` to `number`
  };
  Kind kind = Kind::constant;
  double number = 0.0;
};

/// A tensor of a model, by its name in checkpoints and bundles.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  bool buffer = false;  // set by fit_transform or by running statistics, not trained
  Initial initial = {};
};

/// A linear layer: weight [outputs, inputs], bias [outputs] or none.
struct Linear {
  WeightRef weight, bias;
};

/// Writes a model's graph (inference/graph/graph.h): a model is a function that calls this. What it builds is what
/// training runs, what a bundle holds, and what other runtimes execute. Dropout and the like are part of the graph and
/// left out at export. Weights are drawn in the order in which they are declared here. All failures are ModelErrors.
class GraphBuilder {
 public:
  GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  /// Names that are declared while this lives begin with `name` and a dot.
  class Scope {
   public:
    Scope(GraphBuilder& builder, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GraphBuilder& builder_;
    size_t before_;
  };
  /// Operations that are added while this lives compute in float32 also where training is mixed precision.
  class FullPrecision {
   public:
    explicit FullPrecision(GraphBuilder& builder) : builder_(builder), before_(std::exchange(builder.full_, true)) {}
    ~FullPrecision() { builder_.full_ = before_; }
    FullPrecision(const FullPrecision&) = delete;
    FullPrecision& operator=(const FullPrecision&) = delete;

   private:
    GraphBuilder& builder_;
    bool before_;
  };

  WeightRef parameter(const std::string& name, std::vector<int64_t> shape, Initial initial);
  WeightRef buffer(const std::string& name, std::vector<int64_t> shape, double value);
  /// NAME.weight and NAME.bias.
  Linear linear(const std::string& name, int64_t inputs, int64_t outputs, bool bias);

  /// Columns of node_features; the graph may read them afterwards.
  void provide_features(int64_t columns);
  int64_t width(Value value) const;

  /// Adds any operation.
  Value emit(inference::Operation operation);
  Value dense(Value x, const Linear& layer, double slope = 1.0);
  /// The part of a linear layer that takes columns [start, start + columns of x) of its inputs; no bias.
  Value dense_part(Value x, const WeightRef& weight, int64_t start);
  using Term = std::pair<MatrixRef, Value>;
  Value csr_sum(const std::vector<Term>& terms, const WeightRef& bias = {}, double slope = 1.0);
  Value add(std::vector<Value> inputs, std::vector<double> factors = {}, const WeightRef& bias = {});
  Value multiply(Value x, Value z);
  Value join(std::vector<Value> inputs);
  Value average(std::vector<Value> inputs);
  Value select(Value x, int64_t first, int64_t count);
  /// Negative numbers times slope; 1: x itself.
  Value activated(Value x, double slope);
  Value function(Value x, inference::Activate::Mode mode, double number = 0.0);
  Value dropout(Value x, double probability);
  Value l2_normalized(Value x);
  Value pool(Value x, const MatrixRef& pool, inference::PoolStates::Mode mode);
  Value pool_mean(Value sums, const MatrixRef& pool);
  /// The node that made x gives no gradient to its inputs.
  Value detached(Value x);

  /// Ends the list `embed`, whose result is `embedded`; what follows is `score`, from inference::kEmbedded.
  void begin_score(Value embedded);

  inference::Graph finish(plans::PlanRequest request, Value scores);
  const std::vector<TensorSpec>& tensors() const { return tensors_; }

 private:
  std::string named(const std::string& name) const { return prefix_ + name; }
  WeightRef declare(TensorSpec spec);

  inference::WeightShapes shapes_;
  inference::Widths embed_widths_, score_widths_;
  inference::Graph graph_;
  std::vector<TensorSpec> tensors_;
  std::string prefix_;
  bool scoring_ = false, full_ = false;
};

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
  // Of `score`: each member's, of which `scores` is the mean. Two columns with model.failure_output: the score, and the
  // logit of the chance of failure.
  std::vector<Value> member_scores = {};
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
