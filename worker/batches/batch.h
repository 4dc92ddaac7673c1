#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "models/sparse/plan_tensors.h"
#include "worker/batches/sampler.h"

namespace foretime::worker {

/// A sample of a graph that is cut into segments, and which of them is live: trained in this step.
struct SampledGraph {
  Sample sample;
  int64_t segments = 1;                             // of the graph
  int64_t live = 0;                                 // the live one, of the sample's part
  int64_t part_first = 0, part_end = 1;             // segments of the sample's part
  std::shared_ptr<models::PlanTensors> whole = {};  // segments.stale full_forward: all nodes, one pool a segment
};

/// One rank's part of a batch, ready for the model.
struct Batch {
  int64_t number = 0;                // of the batch, over all epochs
  std::vector<Sample> samples;       // [groups]
  models::PlanTensors plan;          // of all candidates, as ForwardPass::plan makes it
  torch::Tensor targets;             // [candidates] float64, after the target transform
  std::vector<double> weights;       // [groups]
  std::vector<uint8_t> folds;        // [candidates], with trainer.cross_fitting; else empty
  std::vector<SampledGraph> graphs;  // [groups], with segments; else empty
  int64_t candidates = 0;            // 0: this rank pads
  std::string largest_group;         // the one with the most states; empty where this rank pads
};

/// The loss of a batch by one ensemble member's scores [candidates]: over all candidates, or in cross-fitting
/// (trainer.cross_fitting) over those that the member learns from.
torch::Tensor member_loss(const configs::LossSettings& settings, const torch::Tensor& scores, int64_t member,
                          const Batch& batch);

/// The mean of all ensemble members' losses, over `parts`: a step adds up the gradients of so many batches.
torch::Tensor mean_loss(const configs::LossSettings& settings, const std::vector<torch::Tensor>& scores,
                        const Batch& batch, int64_t parts = 1);

}  // namespace foretime::worker
