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

/// Holds a piece of a graph, ready for PlanBuilder::add.
struct GraphPiece {
  data::Group group;  // shares the whole group's arrays if plans share states, else holds a copy
  std::shared_ptr<const plans::PlanSource> source;
};

/// Returns the subgraph of a layout group that `nodes` (ascending ids) induce. If `request` shares states, the piece
/// has the whole group and a plan source of the subset; else it has the separate group of plans::induced_group.
GraphPiece induced_piece(const data::Group& group, const plans::PlanRequest& request, std::span<const int32_t> nodes);

/// Caches the pieces that were used last, with at most `cached_nodes` nodes in total, or one. Threads may share it.
class SegmentPlans {
 public:
  explicit SegmentPlans(const plans::PlanRequest& request, int64_t cached_nodes = 1 << 18);

  /// Returns the piece of segment `segment` of `loaded`, the group of dataset entry `entry`, which has segments.
  std::shared_ptr<const GraphPiece> segment(int64_t entry, const LoadedGroup& loaded, int64_t segment);
  /// Returns the whole graph with a pool for each segment. Throws BrokenInvariant for requests without sharing.
  std::shared_ptr<const GraphPiece> whole(int64_t entry, const LoadedGroup& loaded);

 private:
  using Key = std::pair<int64_t, int64_t>;  // entry, segment or kWhole
  struct Cached {
    Key key;
    int64_t nodes = 0;
    std::shared_ptr<const GraphPiece> piece;
  };

  /// Returns the piece of a segment, or of the whole graph if `segment` is kWhole, made if it is not cached.
  std::shared_ptr<const GraphPiece> piece(int64_t entry, const LoadedGroup& loaded, int64_t segment);

  plans::PlanRequest request_;
  int64_t cached_nodes_;
  std::mutex mutex_;
  std::list<Cached> pieces_;  // the piece used last comes first
  std::map<Key, std::list<Cached>::iterator> places_;
  int64_t nodes_ = 0;  // sum over all cached pieces
};

/// Holds the weights of one sample's segments, for each candidate. Of S segments F are fresh (computed in this step),
/// and P of the others have a past value; each of these P is kept with probability p. A kept segment has the weight 1,
/// a fresh one 1 + ((S - F - P) + (1 - p) P) / F, to make up for all others. If each segment is fresh equally often,
/// the expected sum is that over all segments. With F = 1 and P = S - 1 the weight is the published (S - 1)(1 - p) + 1.
struct SegmentMix {
  torch::Tensor fresh;  // [candidates] float32, weight of each fresh segment
  torch::Tensor stale;  // [candidates, segments] float32, 1 where the past value of a segment is kept, else 0
};

/// Describes the sample whose segments mix_segments() weighs.
struct MixRequest {
  int64_t candidates = 0, segments = 0;    // number of the sample's candidates, and of the graph's segments
  int64_t fresh_first = 0, fresh_end = 1;  // range of the fresh segments
  double keep_probability = 1;             // segments.keep_probability
  uint64_t key = 0;                        // Sample::key, which determines the segments that are kept
};

/// Returns the weights. `present(c, s)` returns whether segment s has a past value for candidate c of the sample.
SegmentMix mix_segments(const MixRequest& request, const std::function<bool(int64_t, int64_t)>& present);

/// Returns the live segment of a sample: one of [first, end), chosen at random by `key` (Sample::key).
int64_t live_segment(uint64_t key, int64_t first, int64_t end);

/// Names what replaces the segments that a step does not train (segments.stale).
using configs::Stale;

/// Trains one segment of each sampled graph and takes past values of the others: Graph Segment Training (Cao et al.,
/// arXiv 2305.12322), described in docs/explanations/segments.md. Sums over segments are unbiased.
///
/// A graph of one segment has exactly the scores that it has without segments. A step writes the values of the live
/// segments, computed with the weights before its update, to the history, from which later batches read them.
class SegmentTraining final : public ForwardPass {
 public:
  /// Throws configs::SettingsError if segments.stale is full_forward and the plans of `model` share no states.
  SegmentTraining(const configs::Settings& settings, const sharding::DatasetIndex& dataset,
                  const sharding::ShardPlan& plan, int rank, const models::CostModel& model, torch::Device device);

  /// Sets the first batch that trains the head alone (segments.finetune_steps), for which plan() returns nullopt.
  void train_head_from(int64_t batch) { head_from_ = batch; }
  std::optional<plans::MessagePlan> plan(Batch& batch, const GroupStore& store) const override;
  /// Returns one tensor [candidates]: score() or, from the batch of train_head_from() on, score_for_head().
  std::vector<torch::Tensor> scores(models::CostModel& model, const Batch& batch, const GroupStore& store) override;
  /// Exchanges the rows of shared graphs if `step` is a multiple of segments.refresh_interval.
  void end_step(int64_t step, comm::Communicator& comm) override;
  bool keeps_history() const override { return stale_ == Stale::scores || stale_ == Stale::pools; }
  std::string history_file(comm::Communicator& comm) const override;
  bool restore_history(const std::string& file, const std::string& origin) override;

  /// Returns a sample of `loaded` with a live segment, which it chooses by Sample::key from the sample's part.
  SampledGraph choose(const Sample& sample, const LoadedGroup& loaded) const;
  /// Adds the live segment of `graph` to the plan of a batch, or the whole graph if it has one segment. For a graph of
  /// several segments with segments.stale full_forward, also sets graph.whole, which score() needs.
  void add(SampledGraph& graph, const LoadedGroup& loaded, plans::PlanBuilder& builder) const;

  /// Returns the scores of a batch from `live`, the plan of the live segments of `graphs`, and past values:
  /// [candidates], with gradients. Stores the live values in the history.
  torch::Tensor score(models::CostModel& model, const models::PlanTensors& live,
                      const std::vector<SampledGraph>& graphs);

  /// Returns the scores of a batch that trains the head alone: [candidates], with gradients of the head only. The
  /// current model pools all segments of each sample's part, one at a time, without gradients and dropout.
  torch::Tensor score_for_head(models::CostModel& model, const std::vector<SampledGraph>& graphs,
                               const GroupStore& store);

  const SegmentHistory& history() const { return history_; }

 private:
  /// Holds past values of a sampled graph's segments; zeros where there are none.
  struct Past {
    torch::Tensor values;       // [candidates, segments, columns]
    std::vector<char> present;  // [candidates * segments]
  };

  /// Returns live scores plus past scores of the other segments, and stores the live ones.
  torch::Tensor add_scores(const torch::Tensor& live, const std::vector<SampledGraph>& graphs);
  /// Returns scores of live pools combined with past ones, and stores the live pools.
  torch::Tensor add_pools(models::CostModel& model, const torch::Tensor& live, const std::vector<SampledGraph>& graphs);
  /// Returns one graph's scores for training the head alone.
  torch::Tensor head_scores(models::CostModel& model, const SampledGraph& graph, const LoadedGroup& loaded);
  /// Returns the pools of the segments of a sample's part, computed without gradients: [candidates, segments, columns].
  torch::Tensor fresh_pools(models::CostModel& model, const SampledGraph& graph, const LoadedGroup& loaded) const;
  /// Returns the past values of all segments of a sampled graph.
  Past past(const SampledGraph& graph) const;
  /// Returns the weights of segments if [first, end) are fresh and others are kept with probability `keep`.
  SegmentMix mix(const SampledGraph& graph, const Past& past, int64_t first, int64_t end, double keep) const;
  /// Stores new values of one segment in the history.
  void write(const SampledGraph& graph, int64_t segment, const torch::Tensor& values);

  Stale stale_;
  double keep_;
  int64_t refresh_interval_;
  std::vector<int64_t> parts_;  // [dataset entries] number of parts
  std::string label_;           // label of history files (SegmentHistory::gather)
  int64_t head_from_ = std::numeric_limits<int64_t>::max();
  std::unique_ptr<SegmentPlans> plans_;
  SegmentHistory history_;
};

/// Returns whether the parameter `name` belongs to the head of the model or of an ensemble member.
bool is_head_parameter(const std::string& name);

}  // namespace foretime::worker
