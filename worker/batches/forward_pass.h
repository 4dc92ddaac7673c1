#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>

#include "comm/communicator.h"
#include "models/model.h"
#include "plans/plan_source.h"
#include "worker/batches/batch.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// How a batch gives scores: WholeGraphs, or SegmentTraining with one segment of each graph and values of the past.
class ForwardPass {
 public:
  ForwardPass(const plans::PlanRequest& request, torch::Device device) : request_(request), device_(device) {}
  virtual ~ForwardPass() = default;
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;

  const plans::PlanRequest& request() const { return request_; }
  torch::Device device() const { return device_; }

  /// The plan of batch.samples; may fill batch.graphs. Called on the loader's thread, beside `scores`.
  virtual models::PlanTensors plan(Batch& batch, const GroupStore& store) const = 0;
  /// Scores of each ensemble member: [candidates], with gradients.
  virtual std::vector<torch::Tensor> scores(models::CostModel& model, const Batch& batch, const GroupStore& store) = 0;
  /// After optimiser step `step` (1, 2, …). All ranks call it.
  virtual void end_step(int64_t /*step*/, comm::Communicator& /*comm*/) {}

  /// Whether steps depend on values of earlier ones, which then go into checkpoints.
  virtual bool keeps_history() const { return false; }
  /// These values as a file of a checkpoint, on rank 0; empty elsewhere, and without any. All ranks call it.
  virtual std::string history_file(comm::Communicator& /*comm*/) const { return {}; }
  /// False where the file is of other data or settings; the history is then left empty.
  virtual bool restore_history(const std::string& /*file*/, const std::string& /*origin*/) { return false; }

 private:
  plans::PlanRequest request_;
  torch::Device device_;
};

/// The file of a checkpoint that ForwardPass::history_file fills.
constexpr const char* kHistoryFile = "history.safetensors";

/// Every step computes all nodes of the sampled graphs.
class WholeGraphs final : public ForwardPass {
 public:
  using ForwardPass::ForwardPass;
  models::PlanTensors plan(Batch& batch, const GroupStore& store) const override {
    plans::PlanBuilder builder(request());
    for (const auto& sample : batch.samples) {
      const auto& loaded = store.get(sample.entry);
      builder.add(loaded.group, sample.candidates, loaded.plan_source);
    }
    return models::to_tensors(std::move(builder).build(), {.device = device()});
  }
  std::vector<torch::Tensor> scores(models::CostModel& model, const Batch& batch, const GroupStore&) override {
    return model.member_scores(batch.plan);
  }
};

}  // namespace foretime::worker
