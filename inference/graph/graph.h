#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "inference/kernels/dense_kernels.h"
#include "inference/ops/operation.h"
#include "inference/runtime/references.h"
#include "plans/message_plan.h"

/// A model as a graph of typed operations on the arrays and sparse matrices of a message plan, with named weights. All
/// runtimes execute this graph: training by LibTorch (models/autograd), scoring without LibTorch (Executor),
/// TorchScript (torchscript_source), and tools/data/check_bundle.py with NumPy. docs/reference/bundle.md describes it
/// for other runtimes.
namespace foretime::inference {

struct Node {
  Operation operation;
  bool full_precision = false;  // mixed-precision training must not round it to bfloat16
  bool detached = false;        // training passes no gradient through it
  bool operator==(const Node& other) const { return operation == other.operation; }
};

/// Holds two lists of nodes in an order of execution: node i of a list has the value kInputs + i and refers only to
/// earlier values.
struct Graph {
  plans::PlanRequest request;  // contents that plans must have
  bool statements = false;     // programs are needed in statements (StatementParts)
  std::vector<Node> embed;     // computes candidates separately → `embedded` [candidates, columns]
  // compares candidates of a group → `scores` [candidates, 1], or [candidates, 2]: see Executor::score
  std::vector<Node> score;
  Value embedded, scores;
  int64_t embedded_columns = 0;
};

/// Returns the value of a node of a list.
inline Value value_of(size_t node) { return {static_cast<int32_t>(node) + kInputs}; }
/// Returns the name of an operation in bundles.
const char* name_of(const Operation& operation);
/// Returns all values that an operation reads, in the order of its fields.
std::vector<Value> inputs_of(const Operation& operation);
/// Returns all sparse matrices that an operation reads.
std::vector<MatrixRef> matrices_of(const Operation& operation);
/// Returns all weights that an operation reads.
std::vector<WeightRef> weights_of(const Operation& operation);
/// Returns whether a candidate's score depends on the other candidates of its group.
bool compares_candidates(const Graph& graph);
/// Returns the graph without operations of training: dropout, dropped messages, and unused nodes.
Graph without_training(const Graph& graph);

/// Returns a graph in the form of bundles.
nlohmann::json to_json(const Graph& graph);

/// Parses the result of to_json and checks it: names, numbers of inputs and weights, and widths from `feature_count`
/// columns of node features to one or two columns of scores. Only numbers of rows remain to be checked. Throws
/// BundleError, naming the operation.
Graph parse_graph(const nlohmann::json& json, const WeightShapes& weights, int64_t feature_count);

/// Checks a graph in memory as parse_graph does, and returns the number of columns of `scores`.
int64_t check_graph(const Graph& graph, const WeightShapes& weights, int64_t feature_count);

/// Holds a graph as the methods of a TorchScript module, generated from its operations:
///   embed(inputs: Dict[str, Tensor]) -> Tensor            [candidates, columns]
///   score(embedded: Tensor, group_ptr: Tensor) -> Tensor  [candidates], or [candidates, 2] with chances of failure
///                                                         in the second column, also in `forward`
///   forward(inputs: Dict[str, Tensor]) -> Tensor          [candidates]; lower is faster
/// `inputs` are the arrays of a message plan as `foretime bundle inputs` writes them. Weights are attributes of the
/// module, under the names of `attributes`.
struct TorchScriptSource {
  std::string text;
  std::map<std::string, std::string> attributes;  // attribute of the module → weight of the bundle
};

/// Generates the methods of a graph.
TorchScriptSource torchscript_source(const Graph& graph);

class PlanMatrices;

/// Runs a graph. It is immutable: any number of threads may use one, each with a separate workspace. Matrix products
/// use OpenBLAS and inference/kernels, with as many threads as OpenMP gives to the caller; libforetime allows one.
class Executor {
 public:
  /// Takes a graph with its weights, for `feature_count` columns of node_features. Throws BundleError if they do not
  /// match (check_graph).
  Executor(Graph graph, std::shared_ptr<const Weights> weights, int64_t feature_count);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Graph& graph() const { return graph_; }

  /// Computes each candidate of the plan separately: [candidates, embedded_columns]. The plan must have been made for
  /// the graph's request. Throws BundleError if it was not, and DataError as statement_parts does.
  Matrix embed(const plans::MessagePlan& plan, Workspace& workspace) const;

  /// Compares the candidates of each group: embedded [candidates, embedded_columns], `group_ptr` as in MessagePlan →
  /// [candidates]; lower is faster. `failures`, unless null, gets the chances that each candidate does not build or
  /// run, [candidates]; empty if the graph does not predict them (its scores have one column; a second one holds their
  /// logits).
  std::vector<float> score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace,
                           std::vector<float>* failures = nullptr) const;
  bool predicts_failures() const { return score_columns_ == 2; }

 private:
  using Releases = std::vector<std::vector<Value>>;  // [nodes] values that no later node needs
  Matrix run(const std::vector<Node>& nodes, const Releases& releases, Value last, PlanMatrices* matrices,
             std::span<const int64_t> group_ptr, std::vector<std::pair<Value, Matrix>> inputs,
             Workspace& workspace) const;
  /// Sets the slot of each weight that the nodes name.
  void assign_slots(std::vector<Node>& nodes);

  Graph graph_;
  std::shared_ptr<const Weights> weights_;
  int64_t feature_count_, score_columns_;
  std::vector<const Weight*> slots_;
  Releases embed_releases_, score_releases_;
};

}  // namespace foretime::inference
