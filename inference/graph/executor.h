#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/graph/graph.h"
#include "inference/kernels/dense_kernels.h"
#include "inference/runtime/references.h"
#include "plans/message_plan.h"

namespace foretime::inference {

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
  /// [candidates]; lower is faster.
  std::vector<float> score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace) const;

 private:
  using Releases = std::vector<std::vector<Value>>;  // of each node: values that nothing needs afterwards
  Matrix run(const std::vector<Node>& nodes, const Releases& releases, Value last, PlanMatrices* matrices,
             std::span<const int64_t> group_ptr, std::vector<std::pair<Value, Matrix>> inputs,
             Workspace& workspace) const;
  void assign_slots(std::vector<Node>& nodes);

  Graph graph_;
  std::shared_ptr<const Weights> weights_;
  int64_t feature_count_;
  std::vector<const Weight*> slots_;
  Releases embed_releases_, score_releases_;
};

}  // namespace foretime::inference
