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

/// A model as a graph of typed operations over the arrays and sparse matrices of a message plan, with named weights.
/// Whatever runs a model runs this: training by LibTorch (models/autograd), scoring without it (Executor),
/// TorchScript (torchscript_source), and tools/check_bundle.py with NumPy. docs/reference/bundle.md describes it for
/// those who write a runtime of their own.
namespace foretime::inference {

struct Node {
  Operation operation;
  bool full_precision = false;  // in training of mixed precision: not to be rounded to bfloat16
  bool detached = false;        // in training: no gradient flows back through it
  bool operator==(const Node& other) const { return operation == other.operation; }
};

/// The nodes of a list stand in an order in which they can run: node i has the value kInputs + i and refers to values
/// before it.
struct Graph {
  plans::PlanRequest request;  // what its plans must hold
  bool statements = false;     // programs in parts (StatementParts)
  std::vector<Node> embed;     // each candidate for itself → `embedded` [candidates, columns]
  std::vector<Node> score;     // candidates of a group compared → `scores` [candidates, 1], or 2: see Executor::score
  Value embedded, scores;
  int64_t embedded_columns = 0;
};

/// Of a value of a list.
inline Value value_of(size_t node) { return {static_cast<int32_t>(node) + kInputs}; }
const char* name_of(const Operation& operation);
/// All values that an operation reads, in the order of its fields.
std::vector<Value> inputs_of(const Operation& operation);
std::vector<MatrixRef> matrices_of(const Operation& operation);
std::vector<WeightRef> weights_of(const Operation& operation);
/// Whether a candidate's score depends on the others of its group.
bool compares_candidates(const Graph& graph);
/// The graph with what only training needs left out: dropout, dropped messages, and nodes that nothing needs.
Graph without_training(const Graph& graph);

nlohmann::json to_json(const Graph& graph);

/// Reads what to_json wrote and checks all of it: names, numbers of inputs and weights, widths from `feature_count`
/// columns of node features on to one or two columns of scores. Afterwards only numbers of rows can be wrong. Throws
/// BundleError, naming the operation.
Graph parse_graph(const nlohmann::json& json, const WeightShapes& weights, int64_t feature_count);

/// Validates a graph in memory as parse_graph does.
/// Returns the columns of `scores`.
int64_t check_graph(const Graph& graph, const WeightShapes& weights, int64_t feature_count);

/// A graph as the methods of a TorchScript module, generated from its operations:
///   embed(inputs: Dict[str, Tensor]) -> Tensor            [candidates, columns]
///   score(embedded: Tensor, group_ptr: Tensor) -> Tensor  [candidates]; where the graph tells failures, [candidates,
///   2]
///                                                         with the chances in the second column, in `forward` too
///   forward(inputs: Dict[str, Tensor]) -> Tensor          [candidates]; lower is faster
/// `inputs` are the arrays of a message plan as `foretime bundle inputs` writes them. Weights are attributes of the
/// module, under the names of `attributes`.
struct TorchScriptSource {
  std::string text;
  std::map<std::string, std::string> attributes;  // of the module → weight of the bundle
};

TorchScriptSource torchscript_source(const Graph& graph);

class PlanMatrices;

/// Runs a graph. Never changes after it was made: any number of threads may use one, each with a workspace of its own.
/// Products are OpenBLAS's and ours, by as many threads as OpenMP gives to the caller: libforetime allows one.
class Executor {
 public:
  /// Throws BundleError where the graph does not fit the weights (check_graph). `feature_count`: of node_features.
  Executor(Graph graph, std::shared_ptr<const Weights> weights, int64_t feature_count);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Graph& graph() const { return graph_; }

  /// Each candidate of the plan for itself: [candidates, embedded_columns]. The plan must have been made by the graph's
  /// request. Throws BundleError where the plan does not fit, and DataError as statement_parts does.
  Matrix embed(const plans::MessagePlan& plan, Workspace& workspace) const;

  /// Compares the candidates of each group. embedded [candidates, embedded_columns], `group_ptr` as in MessagePlan →
  /// [candidates]; lower is faster. `failures`, where not null: [candidates] chances that each does not build or run;
  /// empty where the graph does not tell (one column of scores; in the second stand their logits).
  std::vector<float> score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace,
                           std::vector<float>* failures = nullptr) const;
  bool tells_failures() const { return score_columns_ == 2; }

 private:
  using Releases = std::vector<std::vector<Value>>;  // of each node: values that nothing needs afterwards
  Matrix run(const std::vector<Node>& nodes, const Releases& releases, Value last, PlanMatrices* matrices,
             std::span<const int64_t> group_ptr, std::vector<std::pair<Value, Matrix>> inputs,
             Workspace& workspace) const;
  void assign_slots(std::vector<Node>& nodes);

  Graph graph_;
  std::shared_ptr<const Weights> weights_;
  int64_t feature_count_, score_columns_;
  std::vector<const Weight*> slots_;
  Releases embed_releases_, score_releases_;
};

}  // namespace foretime::inference
