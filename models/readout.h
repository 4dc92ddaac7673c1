#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "data/group.h"
#include "models/plan_tensors.h"

namespace foretime::models {

/// From final states to one row a candidate: the parts of model.readout, side by side. mean, sum, max, and
/// normalized_sum (the sum over its Euclidean norm) are over all nodes of the candidate's graph; with the prefix
/// configurable_ over the configurable ones, and 0 where a graph has none.
class Readout {
 public:
  /// Throws ModelError for an unknown or repeated part, for none at all, and for configurable_ parts of data without
  /// layouts.
  Readout(const std::vector<std::string>& parts, data::CandidateKind kind);

  /// Columns of the result for states of `width` columns.
  int64_t width(int64_t width) const { return static_cast<int64_t>(parts_.size()) * width; }

  /// states [final states, width] → [candidates, parts * width].
  torch::Tensor operator()(const torch::Tensor& states, const PlanTensors& plan) const;

 private:
  enum class Pooling { mean, sum, max, normalized_sum };
  struct Part {
    Pooling pooling;
    bool configurable;
  };
  std::vector<Part> parts_;
};

}  // namespace foretime::models
