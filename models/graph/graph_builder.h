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

/// Describes the initial values of a parameter.
struct Initial {
  enum class Kind : uint8_t {
    constant,       // `number`
    linear_weight,  // weight of torch::nn::Linear
    linear_bias,    // uniform up to 1 / sqrt(`number`), the layer's inputs
    normal,         // mean 0, deviation 1, like torch::nn::Embedding
    xavier_uniform,
    uniform,  // between -`number` and `number`
  };
  Kind kind = Kind::constant;
  double number = 0.0;
};

/// Describes a tensor of a model by its name in checkpoints and bundles.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  bool buffer = false;  // set by fit_transform or by running statistics, not trained
  Initial initial = {};
};

/// Holds the weights of a linear layer: weight [outputs, inputs], bias [outputs] or none.
struct Linear {
  WeightRef weight, bias;
};

/// Builds a model's graph (inference/graph/graph.h); a model is a function that calls it. Training, bundles and other
/// runtimes all use the graph. It includes dropout and other operations of training, which the export leaves out.
/// Weights are drawn in the order of their declaration. All errors are ModelErrors.
class GraphBuilder {
 public:
  GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  /// Prefixes all names that are declared within a scope with `name` and a dot.
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
  /// Makes all operations that are added within a scope compute in float32, also in mixed-precision training.
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

  /// Declares a trained parameter of this shape.
  WeightRef parameter(const std::string& name, std::vector<int64_t> shape, Initial initial);
  /// Declares a buffer of this shape, filled with `value`.
  WeightRef buffer(const std::string& name, std::vector<int64_t> shape, double value);
  /// Declares NAME.weight and, if `bias`, NAME.bias.
  Linear linear(const std::string& name, int64_t inputs, int64_t outputs, bool bias);

  /// Sets the number of columns of node_features, so that the graph may read them.
  void provide_features(int64_t columns);
  /// Returns the columns of a value.
  int64_t width(Value value) const;

  /// Appends an operation and returns its result.
  Value emit(inference::Operation operation);
  /// Appends a linear layer and an activation that multiplies negative numbers by `slope`.
  Value dense(Value x, const Linear& layer, double slope = 1.0);
  /// Appends the part of a linear layer for columns [start, start + columns of x) of its inputs, without bias.
  Value dense_part(Value x, const WeightRef& weight, int64_t start);
  using Term = std::pair<MatrixRef, Value>;
  /// Appends Σ matrix * value over all terms, then bias and activation.
  Value csr_sum(const std::vector<Term>& terms, const WeightRef& bias = {}, double slope = 1.0);
  /// Appends Σ factor * input + bias; empty factors mean ones.
  Value add(std::vector<Value> inputs, std::vector<double> factors = {}, const WeightRef& bias = {});
  /// Appends the elementwise product.
  Value multiply(Value x, Value z);
  /// Appends the concatenation of columns.
  Value join(std::vector<Value> inputs);
  /// Appends the mean of values of equal width.
  Value average(std::vector<Value> inputs);
  /// Appends the selection of columns [first, first + count).
  Value select(Value x, int64_t first, int64_t count);
  /// Appends an activation that multiplies negative numbers by `slope`; returns x if it is 1.
  Value activated(Value x, double slope);
  /// Appends an elementwise function.
  Value function(Value x, inference::Activate::Mode mode, double number = 0.0);
  /// Appends dropout, which only training applies.
  Value dropout(Value x, double probability);
  /// Appends the division of each row by its Euclidean norm.
  Value l2_normalized(Value x);
  /// Appends the sum or maximum of states over each row of a pool.
  Value pool(Value x, const MatrixRef& pool, inference::PoolStates::Mode mode);
  /// Appends the division of a pool's sums by its counts.
  Value pool_mean(Value sums, const MatrixRef& pool);
  /// Returns x without gradients for the inputs of the node that made it.
  Value detached(Value x);

  /// Ends the list `embed` with the result `embedded`. Further operations belong to the list `score`, whose input is
  /// inference::kEmbedded.
  void begin_score(Value embedded);

  /// Ends the list `score` with the result `scores`, and returns the graph.
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

/// Describes the inputs of a model, which the kind of data determines. Stored with every checkpoint.
struct InputSchema {
  data::CandidateKind kind = data::CandidateKind::layout;
  int64_t feature_count = 0;    // columns of node_features
  int64_t node_type_count = 0;  // exclusive upper bound of node types
  bool operator==(const InputSchema&) const = default;
};

/// Describes buffers that are set from statistics of the training data (CostModel::fit_transform).
struct FitSpec {
  enum class Source : uint8_t {
    node_features,  // sets offset and scale of the chosen columns, depending on `features`
    tile_features,
    loop_columns,  // scales by kind of node, to mean 0 and deviation 1
    type_vectors,  // sets `offset` to the vectors of node types
  };
  Source source;
  WeightRef offset, scale;
  configs::FeatureSettings features = {};
  std::vector<int64_t> columns = {};  // indices of raw node features
};

/// Holds the results of a readout's pooling over one set of nodes.
struct PooledStates {
  MatrixRef pool;
  Value sum, maximum;  // undefined: not needed
};

/// Holds a model without weights: the result of the build functions.
struct ModelGraph {
  inference::Graph graph = {};
  std::vector<TensorSpec> tensors = {};  // ordered as weights are drawn
  std::vector<FitSpec> fits = {};
  // Results of `score` for each ensemble member; `scores` is their mean. [candidates, 1], or with model.failure_output
  // [candidates, 2]: the score, and the logit of the chance of failure.
  std::vector<Value> member_scores = {};
  /// Holds the values of one ensemble member: the result of `embed` for it alone, and its selection in `score`.
  struct MemberStates {
    Value embedded, selected;
  };
  std::vector<MemberStates> member_states = {};
  bool members_are_models = false;       // each member could be trained as a separate model
  std::vector<PooledStates> pools = {};  // pools of a graph in pieces (CostModel::pool)
  std::string whole_graphs_only = {};    // reason why graphs cannot be scored in pieces; "": they can
  double edge_dropout = 0.0;
  // MatrixRef::drop_set: matrices whose messages are dropped together
  std::vector<std::vector<MatrixRef>> drop_sets = {};
};

}  // namespace foretime::models
