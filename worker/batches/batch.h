#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "base/no_copy.h"
#include "comm/communicator.h"
#include "configs/settings.h"
#include "models/losses/losses.h"
#include "models/model.h"
#include "models/sparse/plan_tensors.h"
#include "plans/plan_source.h"
#include "worker/batches/resident_plans.h"
#include "worker/batches/sampler.h"
#include "worker/profile/profiler.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// Holds a sample of a graph that may be cut into segments, and its live segment: the one that the step trains.
struct SampledGraph {
  Sample sample;
  int64_t segments = 1;                  // segments of the whole graph
  int64_t live = 0;                      // number of the live segment, within [part_first, part_end)
  int64_t part_first = 0, part_end = 1;  // range of the segments of the sample's part
  // plan of all nodes with one pool for each segment; null unless segments.stale is full_forward and there are several
  std::shared_ptr<models::PlanTensors> whole = {};
};

/// Holds one rank's part of a batch, ready for the model. Candidates are those of all samples, in order.
struct Batch {
  int64_t number = 0;                // number of the batch, counted over all epochs
  std::vector<Sample> samples;       // [groups] one sample for each batch slot of the rank
  models::PlanTensors plan;          // plan of all candidates; only group_ptr is set if ForwardPass::plan returns none
  std::vector<double> targets;       // [candidates] after the target transform
  std::vector<double> weights;       // [groups] weight of each sample's loss (Sample::weight)
  std::vector<uint8_t> folds;        // [candidates] fold of each candidate; empty without trainer.cross_fitting
  std::vector<SampledGraph> graphs;  // [groups]; empty unless SegmentTraining made the batch
  std::vector<models::LossTargets> losses;  // [ensemble members] in cross-fitting, else [1] for all members
  int64_t candidates = 0;                   // 0: the batch has no samples for this rank
  std::string largest_group;                // group with the most states (plans::plan_states); "" without samples
};

/// Describes a model's loss and the scores that it takes.
struct LossForm {
  configs::LossSettings settings = {};
  int64_t ensemble_members = 1;    // number of models in the ensemble
  bool predicts_failures = false;  // model.failure_output: a second column of scores predicts failures

  /// Returns the form that the settings of a training have.
  static LossForm of(const configs::Settings& settings) {
    return {settings.loss, settings.model.ensemble_size, settings.model.failure_output};
  }
};

/// Returns Batch::losses for `batch`, whose folds, targets, weights and plan.group_ptr must be set, and for scores of
/// type `dtype`. Takes memory of `arena`, which must have max_loss_bytes().
std::vector<models::LossTargets> losses_of(const LossForm& form, const Batch& batch, torch::Dtype dtype,
                                           gpu::Arena& arena);
/// Returns an upper bound of the bytes that `losses_of` takes from the arena.
int64_t max_loss_bytes(const LossForm& form, const Batch& batch);

/// Returns the loss of `batch` for the scores [candidates] of ensemble member `member` (0, 1, …): over all candidates,
/// or in cross-fitting (trainer.cross_fitting) over the candidates that the member learns from.
torch::Tensor member_loss(const configs::LossSettings& settings, const torch::Tensor& scores, int64_t member,
                          const Batch& batch);

/// Returns the mean of the losses of all ensemble members, divided by `parts`: the number of batches whose gradients
/// one step adds up (optimizer.accumulation). `scores` holds [candidates] for each member.
torch::Tensor mean_loss(const configs::LossSettings& settings, const std::vector<torch::Tensor>& scores,
                        const Batch& batch, int64_t parts = 1);

/// Computes the scores of a batch: WholeGraphs from all nodes, SegmentTraining from one live segment of each graph and
/// past values of the others.
class ForwardPass : NoCopy {
 public:
  /// Takes the plan request of `model`, and makes plans on `device`.
  ForwardPass(const models::CostModel& model, torch::Device device)
      : request_(model.plan_request()), options_(model.plan_tensor_options(device)) {}
  virtual ~ForwardPass() = default;

  const plans::PlanRequest& request() const { return request_; }
  torch::Device device() const { return options_.device; }
  const models::PlanTensorOptions& options() const { return options_; }

  /// Returns the plan of batch.samples, or nullopt if `scores` needs none. May fill batch.graphs. The loader's thread
  /// calls it while `scores` runs on another thread.
  virtual std::optional<plans::MessagePlan> plan(Batch& batch, const GroupStore& store) const = 0;
  /// Returns the plan of batch.samples from plans of whole groups that are kept (ResidentPlans), which replaces the
  /// result of `plan`; nullopt if the plan of some group is not kept.
  virtual std::optional<models::ResidentBatch> resident_batch(const Batch& /*batch*/,
                                                              const GroupStore& /*store*/) const {
    return std::nullopt;
  }
  /// Returns one tensor for each ensemble member: the scores of the batch's candidates, [candidates], with gradients.
  virtual std::vector<torch::Tensor> scores(models::CostModel& model, const Batch& batch, const GroupStore& store) = 0;
  /// Ends optimiser step `step` (1, 2, …), for example by exchanging past values. All ranks call it.
  virtual void end_step(int64_t /*step*/, comm::Communicator& /*comm*/) {}

  /// Returns whether steps depend on values of earlier steps, which checkpoints must then hold.
  virtual bool keeps_history() const { return false; }
  /// Returns the values of earlier steps as the content of the checkpoint file kHistoryFile on rank 0; "" on other
  /// ranks, and if keeps_history() is false. All ranks call it.
  virtual std::string history_file(comm::Communicator& /*comm*/) const { return {}; }
  /// Restores the values of earlier steps from `file`, the content of history_file(). Messages name it `origin`.
  /// Returns false, with an empty history, if it belongs to other data or settings, or keeps_history() is false.
  virtual bool restore_history(const std::string& /*file*/, const std::string& /*origin*/) { return false; }

 private:
  plans::PlanRequest request_;
  models::PlanTensorOptions options_;
};

/// Names the checkpoint file with the content of ForwardPass::history_file.
constexpr const char* kHistoryFile = "history.safetensors";

/// Computes the scores of a batch from all nodes of the sampled graphs.
class WholeGraphs final : public ForwardPass {
 public:
  /// Makes a new plan for each batch.
  using ForwardPass::ForwardPass;
  /// Keeps the plans of groups as ResidentPlans does, and makes a new plan for other batches.
  WholeGraphs(const models::CostModel& model, torch::Device device, const configs::Settings& settings,
              const sharding::ShardPlan& plan, int rank)
      : ForwardPass(model, device),
        residents_(std::make_unique<ResidentPlans>(settings, plan, rank, request(), options())) {}

  std::optional<plans::MessagePlan> plan(Batch& batch, const GroupStore& store) const override {
    plans::PlanBuilder builder(request());
    for (const auto& sample : batch.samples) {
      const auto& loaded = store.get(sample.entry);
      builder.add(loaded.group, sample.candidates, loaded.plan_source);
    }
    return std::move(builder).build();
  }
  std::optional<models::ResidentBatch> resident_batch(const Batch& batch, const GroupStore& store) const override {
    return residents_ ? residents_->resident_batch(batch.samples, store) : std::nullopt;
  }
  std::vector<torch::Tensor> scores(models::CostModel& model, const Batch& batch, const GroupStore&) override {
    return model.member_scores(batch.plan);
  }

 private:
  std::unique_ptr<ResidentPlans> residents_;  // null: no plans are kept
};

/// Prepares the next batch on a separate thread while the current batch is computed.
class BatchLoader {
 public:
  /// Keeps references to the arguments, except for `loss`. Loads the samples of `rank`. `profiler` may be null.
  BatchLoader(const Sampler& sampler, const GroupStore& store, const models::TargetTransform& targets,
              const ForwardPass& forward, const LossForm& loss, int rank, Profiler* profiler = nullptr)
      : sampler_(sampler),
        store_(store),
        targets_(targets),
        forward_(forward),
        loss_(loss),
        rank_(rank),
        profiler_(profiler) {}

  /// Returns batch `number`; with `more`, also starts to prepare batch number + 1. Throws what the preparation threw.
  Batch get(int64_t number, bool more);

 private:
  /// Samples batch `number` and places it on the device.
  Batch prepare(int64_t number) const;
  /// Makes the plan and the loss targets of `batch`, and copies both to the device at once.
  void place(Batch& batch) const;

  const Sampler& sampler_;
  const GroupStore& store_;
  const models::TargetTransform& targets_;
  const ForwardPass& forward_;
  LossForm loss_;
  int rank_;
  Profiler* profiler_;
  int64_t next_number_ = -1;
  std::future<Batch> next_;
};

}  // namespace foretime::worker
