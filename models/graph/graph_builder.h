#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/no_copy.h"
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
    constant,        // every element is `number`
    linear_weight,   // uniform up to ± 1 / sqrt(inputs of the layer), as in torch::nn::Linear
    linear_bias,     // uniform up to ± 1 / sqrt(`number`), where `number` is the layer's number of inputs
    normal,          // mean 0, deviation 1, like torch::nn::Embedding
    xavier_uniform,  // torch::nn::init::xavier_uniform_
    uniform,         // between -`number` and `number`
  };
  Kind kind = Kind::constant;
  double number = 0.0;
};

/// Describes a parameter or buffer of a model. Checkpoints and bundles store it under `name`.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  bool buffer = false;  // true: set by fit_transform or by running statistics, not trained
  Initial initial = {};
};

/// Names the weights of a linear layer: weight [outputs, inputs], and bias [outputs], which may be undefined.
struct Linear {
  WeightRef weight, bias;
};

/// Builds a model's graph (inference/graph/graph.h); a model is a function that calls it. Training, bundles and other
/// runtimes all use the graph. It includes dropout and other operations of training, which the export leaves out.
/// Weights are drawn in the order of their declaration. Throws ModelError for operations that do not fit their inputs,
/// and BrokenInvariant for a tensor name that is declared twice.
class GraphBuilder : NoCopy {
 public:
  GraphBuilder();

  /// Prefixes all names that are declared within a scope with `name` and a dot.
  class Scope : NoCopy {
   public:
    Scope(GraphBuilder& builder, const std::string& name);
    ~Scope();

   private:
    GraphBuilder& builder_;
    size_t before_;  // length of the prefix outside of the scope
  };
  /// Makes all operations that are added within a scope compute in float32, also in mixed-precision training.
  class FullPrecision : NoCopy {
   public:
    explicit FullPrecision(GraphBuilder& builder) : builder_(builder), before_(std::exchange(builder.full_, true)) {}
    ~FullPrecision() { builder_.full_ = before_; }

   private:
    GraphBuilder& builder_;
    bool before_;  // true if an outer scope is in full precision
  };

  /// Declares a trained parameter.
  WeightRef parameter(const std::string& name, std::vector<int64_t> shape, Initial initial);
  /// Declares a buffer whose elements are all `value` until fit_transform or training sets them.
  WeightRef buffer(const std::string& name, std::vector<int64_t> shape, double value);
  /// Declares the parameters NAME.weight [outputs, inputs] and, if `bias` is true, NAME.bias [outputs].
  Linear linear(const std::string& name, int64_t inputs, int64_t outputs, bool bias);

  /// Sets the number of columns of node_features. Must precede the operations that read node_features.
  void provide_features(int64_t columns);
  /// Returns the number of columns of a value of the current list (embed, or score after begin_score).
  int64_t width(Value value) const;

  /// Appends an operation to the current list, and returns its result.
  Value emit(inference::Operation operation);
  /// Appends a linear layer and an activation that multiplies negative numbers by `slope` (1: no activation).
  Value dense(Value x, const Linear& layer, double slope = 1.0);
  /// Appends x times columns [start, start + columns of x) of a linear layer's weight, transposed, without bias.
  Value dense_part(Value x, const WeightRef& weight, int64_t start);
  using Term = std::pair<MatrixRef, Value>;
  /// Appends Σ matrix * value over all terms, then the bias (if defined) and an activation as in dense().
  Value csr_sum(const std::vector<Term>& terms, const WeightRef& bias = {}, double slope = 1.0);
  /// Appends Σ factor * input + bias. Missing factors are 1; an undefined bias adds nothing.
  Value add(std::vector<Value> inputs, std::vector<double> factors = {}, const WeightRef& bias = {});
  /// Appends the elementwise product of two values of equal shape.
  Value multiply(Value x, Value z);
  /// Appends the concatenation of the inputs' columns; returns a single input itself.
  Value join(std::vector<Value> inputs);
  /// Appends the elementwise mean of inputs of equal shape; returns a single input itself.
  Value average(std::vector<Value> inputs);
  /// Appends the selection of columns [first, first + count) of x.
  Value select(Value x, int64_t first, int64_t count);
  /// Appends an activation that multiplies negative numbers by `slope`; returns x itself if `slope` is 1.
  Value activated(Value x, double slope);
  /// Appends an elementwise function. `number` is the slope of leaky and the addend of rsqrt; other modes ignore it.
  Value function(Value x, inference::Activate::Mode mode, double number = 0.0);
  /// Appends dropout, which only training applies; returns x itself if `probability` is 0.
  Value dropout(Value x, double probability);
  /// Appends the division of each row by its Euclidean norm.
  Value l2_normalized(Value x);
  /// Appends the sum or maximum (`mode`) of the states x over each row of `pool`.
  Value pool(Value x, const MatrixRef& pool, inference::PoolStates::Mode mode);
  /// Appends the means over the rows of `pool`: `sums`, a result of pool(), divided by the rows' numbers of nodes.
  Value pool_mean(Value sums, const MatrixRef& pool);
  /// Stops gradients at the operation (of the current list) that computed x: its inputs receive none. Returns x.
  Value detached(Value x);

  /// Ends the list `embed` with the result `embedded`. Later operations belong to `score`, whose input is kEmbedded.
  void begin_score(Value embedded);

  /// Ends the list `score` with the result `scores`, and returns the graph. The builder cannot be used afterwards.
  inference::Graph finish(plans::PlanRequest request, Value scores);
  const std::vector<TensorSpec>& tensors() const { return tensors_; }

 private:
  std::string named(const std::string& name) const { return prefix_ + name; }
  WeightRef declare(TensorSpec spec);

  inference::WeightShapes shapes_;
  inference::Widths embed_widths_, score_widths_;  // columns of the values of each list
  inference::Graph graph_;
  std::vector<TensorSpec> tensors_;
  std::string prefix_;                   // names of the open scopes, each with a dot
  bool scoring_ = false, full_ = false;  // the current list is `score`; operations compute in float32
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
    node_features,  // offset and scale of the chosen columns of node_features, by the transform in `features`
    tile_features,  // offset and scale of all 24 tile features, by the transform in `features`
    loop_columns,   // offset and scale that give each column mean 0 and deviation 1 over the nodes of its kind
    type_vectors,   // `offset` becomes the table of vectors of node types
  };
  Source source;
  WeightRef offset, scale;  // buffers that are set; type_vectors has no scale
  configs::FeatureSettings features = {};
  std::vector<int64_t> columns = {};  // node_features: indices of the chosen columns of node_features, ascending
};

/// Holds the results of a readout's pooling over one set of nodes.
struct PooledStates {
  MatrixRef pool;
  Value sum, maximum;  // [rows of `pool`, columns]; undefined: the readout does not use it
};

/// Holds a model without weights: the result of the build functions.
struct ModelGraph {
  inference::Graph graph = {};
  std::vector<TensorSpec> tensors = {};  // parameters and buffers, in the order in which weights are drawn
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
  double edge_dropout = 0.0;             // probability that training drops a message (model.edge_dropout)
  // [drop sets] matrices whose messages are dropped by one random choice; MatrixRef::drop_set is the index
  std::vector<std::vector<MatrixRef>> drop_sets = {};
};

}  // namespace foretime::models
