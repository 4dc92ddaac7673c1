#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "models/model.h"
#include "sharding/shard_plan.h"
#include "worker/segments/segment_history.h"
#include "worker/segments/segment_mix.h"
#include "worker/segments/segment_plans.h"
#include "worker/step/sampler.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// What stands for the segments that a step does not train: segments.stale.
enum class Stale : uint8_t { scores, pools, full_forward, none };
Stale parse_stale(const std::string& name);

/// A batch's draw of one graph, and which of its segments is live: trained in this step.
struct DrawnGraph {
  BatchEntry draw;
  int64_t segments = 1;                             // of the graph
  int64_t live = 0;                                 // the live one, of the draw's part
  int64_t part_first = 0, part_end = 1;             // segments of the draw's part
  std::shared_ptr<models::PlanTensors> whole = {};  // full_forward: all nodes, one pool a segment
};

/// Graph Segment Training (Cao et al., arXiv 2305.12322): of each drawn graph one segment is trained, and the others
/// enter with values of the past. docs/segments.md says how they are put together; the sums are unbiased over draws.
///
/// A graph of one segment is scored as without segments, bit for bit. Values that a step computes are written to the
/// history in the same step, as they were before its update, and seen by later batches.
class SegmentTraining {
 public:
  /// Throws configs::SettingsError where segments.stale needs a model whose plans share states, and this one's do not.
  SegmentTraining(const configs::Settings& settings, const sharding::DatasetIndex& dataset,
                  const sharding::ShardPlan& plan, int rank, const models::CostModel& model, torch::Device device);

  /// Chooses the live segment of a draw. This and `add` may run on another thread than the rest.
  DrawnGraph choose(const BatchEntry& draw, const LoadedGroup& loaded) const;
  /// Adds the live segment to a batch's plan.
  void add(DrawnGraph& graph, const LoadedGroup& loaded, plans::PlanBuilder& builder) const;

  /// Scores of a batch whose plan holds the live segments: [candidates], with gradients.
  torch::Tensor score(models::CostModel& model, const models::PlanTensors& live, const std::vector<DrawnGraph>& graphs);

  /// Scores of a batch for the head alone: all segments of a draw's part are pooled as the model is now, one after the
  /// other, without gradient and without dropout; gradients reach the head only.
  torch::Tensor score_for_head(models::CostModel& model, const std::vector<DrawnGraph>& graphs,
                               const GroupStore& store);

  /// After optimiser step `step` (1, 2, …): exchanges history where its time has come. All ranks call it.
  void end_step(int64_t step, comm::Communicator& comm);

  /// The history as a file of a checkpoint, on rank 0; empty elsewhere, and where segments.stale keeps none. All ranks
  /// call it.
  std::string checkpoint_file(comm::Communicator& comm) const;
  /// False where the history is of other data, segments or values, and is left empty.
  bool restore(const std::string& file, const std::string& origin);

  /// Whether segments.stale reads past values.
  bool keeps_history() const { return stale_ == Stale::scores || stale_ == Stale::pools; }
  const SegmentHistory& history() const { return history_; }

 private:
  /// Past values of a drawn graph's segments, zeros where there are none.
  struct Past {
    torch::Tensor values;       // [candidates, segments, columns]
    std::vector<char> present;  // [candidates * segments]
  };

  torch::Tensor add_scores(const torch::Tensor& live, const std::vector<DrawnGraph>& graphs);
  torch::Tensor add_pools(models::CostModel& model, const torch::Tensor& live, const std::vector<DrawnGraph>& graphs);
  torch::Tensor head_scores(models::CostModel& model, const DrawnGraph& graph, const LoadedGroup& loaded);
  torch::Tensor fresh_pools(models::CostModel& model, const DrawnGraph& graph, const LoadedGroup& loaded) const;
  Past past(const DrawnGraph& graph) const;
  SegmentMix mix(const DrawnGraph& graph, const Past& past, int64_t first, int64_t end, double keep) const;
  void write(const DrawnGraph& graph, int64_t segment, const torch::Tensor& values);

  Stale stale_;
  double keep_;
  int64_t refresh_interval_;
  std::vector<int64_t> parts_;  // by entry
  std::string label_;
  torch::Device device_;
  std::unique_ptr<SegmentPlans> plans_;
  SegmentHistory history_;
};

/// The file of a checkpoint that holds the history.
constexpr const char* kHistoryFile = "history.safetensors";

/// Parameters of the head, by name: those that segments.finetune_steps trains.
bool is_head_parameter(const std::string& name);

}  // namespace foretime::worker
