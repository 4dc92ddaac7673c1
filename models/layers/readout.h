#pragma once

#include <vector>

#include "configs/settings.h"
#include "models/graph/model_graph.h"

namespace foretime::models {

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

}  // namespace foretime::models
