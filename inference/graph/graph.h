#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/no_copy.h"
#include "inference/kernels/dense_kernels.h"
#include "inference/ops/operation.h"
#include "inference/runtime/references.h"
#include "plans/message_plan.h"

/// A model as a graph of typed operations on the arrays and sparse matrices of a message plan, with named weights.
/// It is executed by training with LibTorch (models/autograd), scoring without LibTorch (Executor), TorchScript
/// (torchscript_source), and NumPy (tools/data/check_bundle.py). docs/reference/bundle.md is for other runtimes.
namespace foretime::inference {

/// Holds an operation and how training runs it. == compares the operation alone.
struct Node {
  Operation operation;
  bool full_precision = false;  // true: mixed-precision training does not round the result to bfloat16
  bool detached = false;        // true: training passes no gradient through this node
  bool operator==(const Node& other) const { return operation == other.operation; }
};

/// Holds two lists of nodes in an order of execution: node i of a list has the value kInputs + i and refers only to
/// earlier values.
struct Graph {
  plans::PlanRequest request;  // parts that a message plan must have
  bool statements = false;     // true: operations read matrices of StatementParts
  std::vector<Node> embed;     // computes each candidate separately; result: `embedded`
  std::vector<Node> score;     // compares the candidates of a group; result: `scores`
  Value embedded;              // value of `embed`: [candidates, embedded_columns]
  Value scores;                // value of `score`: [candidates, 1 or 2], see Executor::score
  int64_t embedded_columns = 0;
};

/// Returns the value that node number `node` of a list computes.
inline Value value_of(size_t node) { return {static_cast<int32_t>(node) + kInputs}; }
/// Returns the name of an operation in bundles.
const char* name_of(const Operation& operation);
/// Returns the values that an operation reads, in the order of its fields.
std::vector<Value> inputs_of(const Operation& operation);
/// Returns the sparse matrices that an operation reads, the identity included.
std::vector<MatrixRef> matrices_of(const Operation& operation);
/// Returns the weights that an operation may have; the names of those that it does without are empty.
std::vector<WeightRef> weights_of(const Operation& operation);
/// Returns whether an operation of `score` compares the candidates of a group. PlanRequest::tied does not count.
bool compares_candidates(const Graph& graph);
/// Returns a copy without dropout, without dropped messages, and without nodes that neither result needs.
Graph without_training(const Graph& graph);

/// Returns a graph in the form of bundles.
nlohmann::json to_json(const Graph& graph);

/// Parses the result of to_json. Checks names, limits, weights and numbers of columns: node features have
/// `feature_count` columns, and the result of `score` must have one or two. Numbers of rows are checked only when the
/// graph runs. Throws BundleError, which names the operation if one is at fault.
Graph parse_graph(const nlohmann::json& json, const WeightShapes& weights, int64_t feature_count);

/// Checks columns and weights as parse_graph does. Returns the number of columns of `scores`. Throws BundleError.
int64_t check_graph(const Graph& graph, const WeightShapes& weights, int64_t feature_count);

/// Holds a graph as the methods of a TorchScript module, generated from its operations:
///   embed(inputs: Dict[str, Tensor]) -> Tensor            [candidates, columns]
///   score(embedded: Tensor, group_ptr: Tensor) -> Tensor  [candidates], or [candidates, 2] with chances of failure
///                                                         in the second column, also in `forward`
///   forward(inputs: Dict[str, Tensor]) -> Tensor          [candidates]; lower is faster
/// `inputs` are the arrays of a message plan under the names of docs/reference/bundle.md. Weights are attributes of the
/// module, under the names of `attributes`.
struct TorchScriptSource {
  std::string text;
  std::map<std::string, std::string> attributes;  // attribute of the module → weight of the bundle
};

/// Generates the methods of a graph.
TorchScriptSource torchscript_source(const Graph& graph);

class PlanMatrices;

/// Runs a graph on the CPU. Any number of threads may use one Executor, each with a separate workspace. Matrix products
/// use OpenBLAS and inference/kernels, with as many threads as OpenMP gives to the caller; libforetime allows one.
class Executor : NoCopy {
 public:
  /// Takes a graph with its weights, for `feature_count` columns of node_features. Throws as check_graph does.
  Executor(Graph graph, std::shared_ptr<const Weights> weights, int64_t feature_count);

  const Graph& graph() const { return graph_; }

  /// Computes each candidate of the plan separately: returns [candidates, embedded_columns]. The plan must be made for
  /// graph().request. Throws BundleError if the plan lacks matrices or rows, and as statement_parts does.
  Matrix embed(const plans::MessagePlan& plan, Workspace& workspace) const;

  /// Compares the candidates of each group and returns a score for each candidate; a lower score means faster.
  /// `embedded` is the result of `embed`, `group_ptr` that of MessagePlan. If `failures` is not null, it gets the
  /// probability of each candidate not to build or run; it becomes empty if predicts_failures() is false.
  std::vector<float> score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace,
                           std::vector<float>* failures = nullptr) const;
  /// Returns whether `scores` has a second column, the logits of failure.
  bool predicts_failures() const { return score_columns_ == 2; }

 private:
  using Releases = std::vector<std::vector<Value>>;  // [nodes] values that no later node reads
  /// Runs the operations of `nodes` on `inputs`. Returns the value `last`.
  Matrix run(const std::vector<Node>& nodes, const Releases& releases, Value last, PlanMatrices* matrices,
             std::span<const int64_t> group_ptr, std::vector<std::pair<Value, Matrix>> inputs,
             Workspace& workspace) const;
  /// Sets the slot of each weight that the nodes name.
  void assign_slots(std::vector<Node>& nodes);

  Graph graph_;
  std::shared_ptr<const Weights> weights_;
  int64_t feature_count_, score_columns_;
  std::vector<const Weight*> slots_;  // [WeightRef::slot] weights that the nodes name
  Releases embed_releases_, score_releases_;
};

}  // namespace foretime::inference
