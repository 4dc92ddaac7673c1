#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "data/graphs/group.h"
#include "models/form_writer.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// From final states to one row a candidate: the parts of model.readout, side by side. mean, sum, max, and
/// normalized_sum (the sum over its Euclidean norm) are over all nodes of the candidate's graph; with the prefix
/// configurable_ over the configurable ones, and 0 where a graph has none; with the prefix tied_ (sum, mean and
/// normalized_sum only) likewise, nodes that are tied to each other counting as one (plans/equivalent_decisions.h).
class Readout {
 public:
  /// Throws ModelError for an unknown or repeated part, for none at all, and for configurable_ and tied_ parts of data
  /// without layouts.
  Readout(const std::vector<std::string>& parts, data::CandidateKind kind);

  /// Columns of the result for states of `width` columns.
  int64_t width(int64_t width) const { return static_cast<int64_t>(parts_.size()) * width; }

  /// states [final states, width] → [candidates * pools, parts * width].
  torch::Tensor operator()(const torch::Tensor& states, const PlanTensors& plan) const {
    return finish(pool(states, plan), states.size(1));
  }

  /// The same as operations, over the pools nodes, configurable and tied; or over `nodes` in place of the first one.
  std::string describe(FormWriter& writer, const std::string& states, const std::string& nodes = "nodes") const;

  /// The same in two steps, so that a graph can come in pieces (CostModel::pool). `pool` gives sums, counts and maxima
  /// over nodes, [candidates * pools, pool_columns]; `finish` makes the parts of them. `combine` as
  /// CostModel::combine_pools.
  torch::Tensor pool(const torch::Tensor& states, const PlanTensors& plan) const;
  torch::Tensor combine(const torch::Tensor& pools, const torch::Tensor& weights, int64_t width) const;
  torch::Tensor finish(const torch::Tensor& pooled, int64_t width) const;
  int64_t pool_columns(int64_t width) const;
  /// Whether plans must know which nodes are tied (data::PlanRequest::tied).
  bool needs_tied() const { return pools_[tied].used; }

 private:
  enum class Pooling { mean, sum, max, normalized_sum };
  enum Over : size_t { nodes, configurable, tied, kOvers };
  struct Part {
    Pooling pooling;
    Over over;
  };
  /// What is pooled over one set of nodes: a sum (width columns), the count (1), a maximum (width).
  struct Pool {
    bool used = false, sum = false, max = false;
    int64_t columns(int64_t width) const { return used ? (sum ? width : 0) + 1 + (max ? width : 0) : 0; }
  };

  std::vector<Part> parts_;
  std::array<Pool, kOvers> pools_;
};

}  // namespace foretime::models
