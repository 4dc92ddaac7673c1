#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "models/model.h"
#include "sharding/shard_plan.h"
#include "worker/batches/forward_pass.h"
#include "worker/segments/segment_history.h"
#include "worker/segments/segment_mix.h"
#include "worker/segments/segment_plans.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// What stands for the segments that a step does not train: segments.stale.
using configs::Stale;

/// Graph Segment Training (Cao et al., arXiv 2305.12322): of each sampled graph one segment is trained, and the
/// others enter with values of the past. docs/explanations/segments.md says how they are put together; the sums are
/// unbiased over samples.
///
/// A graph of one segment is scored as without segments, bit for bit. Values that a step computes are written to the
/// history in the same step, as they were before its update, and seen by later batches.
class SegmentTraining final : public ForwardPass {
 public:
  /// Throws configs::SettingsError where segments.stale needs a model whose plans share states, and this one's do not.
  SegmentTraining(const configs::Settings& settings, const sharding::DatasetIndex& dataset,
                  const sharding::ShardPlan& plan, int rank, const models::CostModel& model, torch::Device device);

  /// Batches from `batch` on train the head alone (segments.finetune_steps): their plans hold nothing but group_ptr.
  void train_head_from(int64_t batch) { head_from_ = batch; }
  models::PlanTensors plan(Batch& batch, const GroupStore& store) const override;
  std::vector<torch::Tensor> scores(models::CostModel& model, const Batch& batch, const GroupStore& store) override;
  /// Exchanges history where its time has come.
  void end_step(int64_t step, comm::Communicator& comm) override;
  bool keeps_history() const override { return stale_ == Stale::scores || stale_ == Stale::pools; }
  std::string history_file(comm::Communicator& comm) const override;
  bool restore_history(const std::string& file, const std::string& origin) override;

  /// Chooses the live segment of a sample.
  SampledGraph choose(const Sample& sample, const LoadedGroup& loaded) const;
  /// Adds the live segment to a batch's plan.
  void add(SampledGraph& graph, const LoadedGroup& loaded, plans::PlanBuilder& builder) const;

  /// Scores of a batch whose plan holds the live segments: [candidates], with gradients.
  torch::Tensor score(models::CostModel& model, const models::PlanTensors& live,
                      const std::vector<SampledGraph>& graphs);

  /// Scores of a batch for the head alone: all segments of a sample's part are pooled as the model is now, one after
  /// the other, without gradient and without dropout; gradients reach the head only.
  torch::Tensor score_for_head(models::CostModel& model, const std::vector<SampledGraph>& graphs,
                               const GroupStore& store);

  const SegmentHistory& history() const { return history_; }

 private:
  /// Past values of a sampled graph's segments, zeros where there are none.
  struct Past {
    torch::Tensor values;       // [candidates, segments, columns]
    std::vector<char> present;  // [candidates * segments]
  };

  torch::Tensor add_scores(const torch::Tensor& live, const std::vector<SampledGraph>& graphs);
  torch::Tensor add_pools(models::CostModel& model, const torch::Tensor& live, const std::vector<SampledGraph>& graphs);
  torch::Tensor head_scores(models::CostModel& model, const SampledGraph& graph, const LoadedGroup& loaded);
  torch::Tensor fresh_pools(models::CostModel& model, const SampledGraph& graph, const LoadedGroup& loaded) const;
  Past past(const SampledGraph& graph) const;
  SegmentMix mix(const SampledGraph& graph, const Past& past, int64_t first, int64_t end, double keep) const;
  void write(const SampledGraph& graph, int64_t segment, const torch::Tensor& values);

  Stale stale_;
  double keep_;
  int64_t refresh_interval_;
  std::vector<int64_t> parts_;  // by entry
  std::string label_;
  int64_t head_from_ = std::numeric_limits<int64_t>::max();
  std::unique_ptr<SegmentPlans> plans_;
  SegmentHistory history_;
};

/// Parameters of the head, by name: those that segments.finetune_steps trains.
bool is_head_parameter(const std::string& name);

}  // namespace foretime::worker
