#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

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
  int64_t number = 0;                       // of the batch, over all epochs
  std::vector<Sample> samples;              // [groups]
  models::PlanTensors plan;                 // of all candidates; nothing but group_ptr where ForwardPass needs none
  std::vector<double> targets;              // [candidates] after the target transform
  std::vector<double> weights;              // [groups]
  std::vector<uint8_t> folds;               // [candidates], with trainer.cross_fitting; else empty
  std::vector<SampledGraph> graphs;         // [groups], with segments; else empty
  std::vector<models::LossTargets> losses;  // of each ensemble member in cross-fitting, else one for all
  int64_t candidates = 0;                   // 0: this rank pads
  std::string largest_group;                // the one with the most states; empty where this rank pads
};

/// What losses a model's scores have.
struct LossForm {
  configs::LossSettings settings = {};
  int64_t members = 1;          // of an ensemble
  bool tells_failures = false;  // model.failure_output

  static LossForm of(const configs::Settings& settings) {
    return {settings.loss, settings.model.ensemble_size, settings.model.failure_output};
  }
};

/// Batch::losses of a batch whose other members are there, for scores of `dtype`.
std::vector<models::LossTargets> losses_of(const LossForm& form, const Batch& batch, torch::Dtype dtype,
                                           device::Arena& arena);
/// Room that they take in the arena, at most.
int64_t room_of_losses(const LossForm& form, const Batch& batch);

/// The loss of a batch by one ensemble member's scores [candidates]: over all candidates, or in cross-fitting
/// (trainer.cross_fitting) over those that the member learns from.
torch::Tensor member_loss(const configs::LossSettings& settings, const torch::Tensor& scores, int64_t member,
                          const Batch& batch);

/// The mean of all ensemble members' losses, over `parts`: a step adds up the gradients of so many batches.
torch::Tensor mean_loss(const configs::LossSettings& settings, const std::vector<torch::Tensor>& scores,
                        const Batch& batch, int64_t parts = 1);

/// How a batch gives scores: WholeGraphs, or SegmentTraining with one segment of each graph and values of the past.
class ForwardPass {
 public:
  /// Of plans of such models.
  ForwardPass(const models::CostModel& model, torch::Device device)
      : request_(model.plan_request()), options_(model.plan_tensor_options(device)) {}
  virtual ~ForwardPass() = default;
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;

  const plans::PlanRequest& request() const { return request_; }
  torch::Device device() const { return options_.device; }
  const models::PlanTensorOptions& options() const { return options_; }

  /// The plan of batch.samples, or nothing where `scores` needs none; may fill batch.graphs. Called on the loader's
  /// thread, beside `scores`.
  virtual std::optional<plans::MessagePlan> plan(Batch& batch, const GroupStore& store) const = 0;
  /// The plan of batch.samples from plans that are there already (ResidentPlans), which then takes the place of `plan`.
  virtual std::optional<models::ResidentDraw> draw(const Batch& /*batch*/, const GroupStore& /*store*/) const {
    return std::nullopt;
  }
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
  models::PlanTensorOptions options_;
};

/// The file of a checkpoint that ForwardPass::history_file fills.
constexpr const char* kHistoryFile = "history.safetensors";

/// Every step computes all nodes of the sampled graphs.
class WholeGraphs final : public ForwardPass {
 public:
  /// Makes a plan for each batch.
  using ForwardPass::ForwardPass;
  /// Keeps plans of all candidates where sampler.resident_plans says so.
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
  std::optional<models::ResidentDraw> draw(const Batch& batch, const GroupStore& store) const override {
    return residents_ ? residents_->draw(batch.samples, store) : std::nullopt;
  }
  std::vector<torch::Tensor> scores(models::CostModel& model, const Batch& batch, const GroupStore&) override {
    return model.member_scores(batch.plan);
  }

 private:
  std::unique_ptr<ResidentPlans> residents_;  // null: none are kept
};

/// Prepares the next batch in a thread of its own while the current one is computed.
class BatchLoader {
 public:
  /// Keeps references to its arguments, but for `loss`. `profiler`, where there is one, records when a batch is made.
  BatchLoader(const Sampler& sampler, const GroupStore& store, const models::TargetTransform& targets,
              const ForwardPass& forward, const LossForm& loss, int rank, Profiler* profiler = nullptr)
      : sampler_(sampler),
        store_(store),
        targets_(targets),
        forward_(forward),
        loss_(loss),
        rank_(rank),
        profiler_(profiler) {}

  /// Batch `number`; begins with `number + 1` before returning where `more` is set.
  Batch get(int64_t number, bool more);

 private:
  Batch prepare(int64_t number) const;
  /// Makes the plan and the losses' part, and brings both to the device in one copy.
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
