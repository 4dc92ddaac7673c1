#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "data/graphs/segments.h"
#include "models/model.h"
#include "plans/plan_source.h"
#include "sharding/shard_plan.h"
#include "worker/batches/batch.h"
#include "worker/segments/segment_history.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// A piece of a graph, ready for PlanBuilder::add.
struct GraphPiece {
  data::Group group;  // shares the arrays of the group that it is a piece of, where states are shared; else a copy
  std::shared_ptr<const plans::PlanSource> source;
};

/// The subgraph that some nodes induce: as a subset of the group's nodes, or as a group of its own for requests without
/// sharing.
GraphPiece induced_piece(const data::Group& group, const plans::PlanRequest& request, std::span<const int32_t> nodes);

/// What the plans of a rank's segments have in common, kept for the next sample: pieces of up to about `cached_nodes`
/// nodes together, those that were used last. Several threads may ask at once.
class SegmentPlans {
 public:
  explicit SegmentPlans(const plans::PlanRequest& request, int64_t cached_nodes = 1 << 18);

  /// `loaded` is the dataset index's entry `entry`, always the same, and has segments.
  std::shared_ptr<const GraphPiece> segment(int64_t entry, const LoadedGroup& loaded, int64_t segment);
  /// The graph as a whole, with one pool a segment. Throws DataError for requests without sharing.
  std::shared_ptr<const GraphPiece> whole(int64_t entry, const LoadedGroup& loaded);

 private:
  using Key = std::pair<int64_t, int64_t>;  // entry, segment or kWhole
  struct Cached {
    Key key;
    int64_t nodes = 0;
    std::shared_ptr<const GraphPiece> piece;
  };

  std::shared_ptr<const GraphPiece> piece(int64_t entry, const LoadedGroup& loaded, int64_t segment);

  plans::PlanRequest request_;
  int64_t cached_nodes_;
  std::mutex mutex_;
  std::list<Cached> pieces_;  // the one that was used last comes first
  std::map<Key, std::list<Cached>::iterator> places_;
  int64_t nodes_ = 0;  // of all pieces that are kept
};

/// How the segments of one sample count, candidate by candidate. Of S segments F are fresh (computed in this step), and
/// P of the others have a value; each of these is kept with probability p. The fresh ones make up for what is missing
/// or left out: each counts 1 + ((S - F - P) + (1 - p) P) / F times, a kept one once. Over samples in which each
/// segment is the fresh one equally often, the expected sum is the sum over all segments. With F = 1 and P = S - 1 this
/// is the published (S - 1)(1 - p) + 1.
struct SegmentMix {
  torch::Tensor fresh;  // [candidates] float32, the factor of each fresh segment
  torch::Tensor stale;  // [candidates, segments] float32, 1 where a stale segment is kept, else 0
};

struct MixRequest {
  int64_t candidates = 0, segments = 0;
  int64_t fresh_first = 0, fresh_end = 1;  // the fresh segments
  double keep_probability = 1;
  uint64_t key = 0;  // of the sample's random choices
};

/// `present(candidate, segment)`: whether a stale segment has a value for the sample's candidate of that position.
SegmentMix mix_segments(const MixRequest& request, const std::function<bool(int64_t, int64_t)>& present);

/// The live segment of a sample: one of [first, end), a function of the sample's key.
int64_t live_segment(uint64_t key, int64_t first, int64_t end);

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

  /// Batches from `batch` on train the head alone (segments.finetune_steps): they have no plans.
  void train_head_from(int64_t batch) { head_from_ = batch; }
  std::optional<plans::MessagePlan> plan(Batch& batch, const GroupStore& store) const override;
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
