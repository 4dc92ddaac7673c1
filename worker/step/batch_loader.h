#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "models/losses/targets.h"
#include "models/sparse/plan_tensors.h"
#include "worker/segments/segment_training.h"
#include "worker/step/profiler.h"
#include "worker/step/sampler.h"

namespace foretime::worker {

/// One rank's part of a batch, ready for the model.
struct Batch {
  models::PlanTensors plan;
  torch::Tensor targets;           // [candidates] float64, after the target transform
  std::vector<double> weights;     // [groups]
  std::vector<uint8_t> folds;      // [candidates], with trainer.member_folds; else empty
  std::vector<DrawnGraph> graphs;  // [groups], with segments; else empty
  int64_t candidates = 0;          // 0: this rank pads
  std::string largest_group;       // the one with the most states; empty where this rank pads
};

/// Prepares the next batch in a thread of its own while the current one is computed.
class BatchLoader {
 public:
  /// Keeps references to all of its arguments. `profiler`, where there is one, hears when a batch is made.
  BatchLoader(const Sampler& sampler, const GroupStore& store, const models::TargetTransform& targets,
              const plans::PlanRequest& request, int rank, torch::Device device, Profiler* profiler = nullptr)
      : sampler_(sampler),
        store_(store),
        targets_(targets),
        request_(request),
        rank_(rank),
        device_(device),
        profiler_(profiler) {}

  /// From now on plans hold live segments. Batches from `head_from` on train the head alone: their plans hold nothing
  /// but group_ptr. Keeps the pointer.
  void cut_graphs(const SegmentTraining* segments, int64_t head_from) {
    segments_ = segments;
    head_from_ = head_from;
  }

  /// Batch `number`; begins with `number + 1` before returning where `more` is set.
  Batch get(int64_t number, bool more);

 private:
  Batch prepare(int64_t number) const;

  const Sampler& sampler_;
  const GroupStore& store_;
  const models::TargetTransform& targets_;
  plans::PlanRequest request_;
  int rank_;
  torch::Device device_;
  Profiler* profiler_;
  const SegmentTraining* segments_ = nullptr;
  int64_t head_from_ = 0;
  int64_t next_number_ = -1;
  std::future<Batch> next_;
};

}  // namespace foretime::worker
