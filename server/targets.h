#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/frontends/hlo/candidates.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/program_scorer.h"
#include "server/batcher.h"

/// The targets that requests to the server score candidates of.
namespace foretime::server {

using ModelPtr = std::shared_ptr<const inference::Model>;

/// Scores layouts or tiles of a graph.
class GraphTarget : public Target {
 public:
  /// Opens a graph: JSON (docs/how-to/serve.md) if `json`, otherwise an HLO module in protobuf. Throws DataError, also
  /// for more than `most_nodes` nodes or 16 * `most_nodes` edges, and WrongKind if the model scores no graphs.
  static std::shared_ptr<const GraphTarget> open(const ModelPtr& model, const std::string& body, bool json,
                                                 int64_t most_nodes);

  Scored score(const Work& work) const override;
  bool joins_requests() const override { return joins_; }

  const inference::GraphScorer& scorer() const { return scorer_; }
  const data::NodeNames& names() const { return names_; }  // a graph from JSON has no names
  /// Returns the weight of the graph for the limit of memory: nodes + edges / 16.
  int64_t weight() const { return weight_; }

  static constexpr int64_t kMeanEdgesPerNode = 16;  // largest mean number of edges for each node

 private:
  GraphTarget(const ModelPtr& model, data::Group group, data::NodeNames names);

  int64_t weight_;
  inference::GraphScorer scorer_;
  data::NodeNames names_;
  bool layouts_, joins_;  // scores layouts rather than tiles; result of joins_requests()
};

/// Scores tuning records of a workload.
class WorkloadTarget : public Target {
 public:
  /// Opens a workload from its compute DAG. Throws the errors of WorkloadScorer.
  WorkloadTarget(const ModelPtr& model, std::string_view compute_dag);

  Scored score(const Work& work) const override;
  bool joins_requests() const override { return joins_; }

  const data::ComputeDag& dag() const { return scorer_.dag(); }
  double operations() const { return operations_; }  // arithmetic operations (ComputeDag::flops)

 private:
  inference::WorkloadScorer scorer_;
  double operations_;
  bool joins_;
};

/// Scores TIR programs of any workload.
class TirTarget : public Target {
 public:
  explicit TirTarget(ModelPtr model) : model_(std::move(model)) {}

  Scored score(const Work& work) const override;
  bool joins_requests() const override { return !model_->spec().compares_candidates; }

 private:
  ModelPtr model_;
};

}  // namespace foretime::server
