#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "configs/settings.h"
#include "data/dataset/group_files.h"
#include "data/graphs/group.h"
#include "data/graphs/segments.h"
#include "plans/plan_source.h"
#include "sharding/dataset_index.h"

namespace foretime::worker {

/// Holds a group in memory, with its candidates divided. Candidates of one configuration are on the same side.
struct LoadedGroup {
  data::Group group;  // pruned to data.prune_hops; with data.duplicates mean, training candidates have mean run times
  std::shared_ptr<const plans::PlanSource> plan_source = {};  // made for the model's plan request; null: not prepared
  std::shared_ptr<const data::Segments> segments = {};        // null unless sampler.max_segment_nodes cuts the graph
  std::vector<int64_t> train = {};  // candidates to train on, ascending; empty unless the role is train
  // [candidates] folds in cross-fitting (folds_of); empty without, and unless the role is train
  std::vector<uint8_t> folds = {};
  std::vector<double> speed_rank = {};  // [train] 0: fastest … 1: slowest; empty where sampler.fast_bias is 0
  std::vector<int64_t> evaluated = {};  // candidates to evaluate: held out (train), or official or all (valid, test)
};

/// Holds the values of a training group that are summed up before the first step.
struct TrainingPart {
  data::Group labels;          // name, kind, candidates, run times and flops; no graph
  std::vector<int64_t> train;  // see LoadedGroup
  // Statistics of values or of their logarithms (model.features.log), over all nodes of the file, including nodes that
  // data.prune_hops removes.
  data::ColumnStatistics features, tile_features;
};

/// Official candidates by group name. Groups without an entry are evaluated on all candidates.
using data::EvalIndices;

/// Reads the indices of data.eval_indices, relative to data.root; empty if none is named. Throws data::DataError.
EvalIndices load_official_indices(const configs::DataSettings& settings);

/// Returns the rule by which the settings cut graphs into segments; max_nodes is 0 if they do not cut.
data::SegmentRule segment_rule(const configs::Settings& settings);

/// Returns the segments of a group; null if the settings do not cut its graph.
std::shared_ptr<const data::Segments> segments_of(const data::Group& group, const configs::Settings& settings);

/// Returns a group with the labels of a packed group's summary, without a graph and undivided.
LoadedGroup labels_of(const data::GroupHeader& header, const data::GroupSummary& summary);

/// Divides a group's candidates as the settings say. The result depends only on the settings and the group. For
/// training groups `configurations` holds the group's configuration hashes; if empty, they are computed.
/// data.duplicates keeps the first training candidate of each configuration, and `mean` sets its run time in
/// `loaded.group` to their mean; held-out candidates are unchanged. Throws data::DataError if official indices are out
/// of range, or if a training group has no labels or no candidates left.
void divide_candidates(LoadedGroup& loaded, sharding::Role role, const configs::Settings& settings,
                       const EvalIndices& official, std::span<const uint64_t> configurations = {});

/// Holds the groups of one rank and opens each at its first use: a packed group is mapped and checked, an .npz is read.
/// Groups stay open until the store is destroyed; the kernel can reclaim the memory of mapped groups, and an .npz takes
/// the size of its codes. Except for the constructor, functions may be called from any thread.
class GroupStore {
 public:
  /// Opens no group. Throws data::DataError if official indices are out of range.
  GroupStore(const configs::Settings& settings, const sharding::DatasetIndex& dataset,
             const std::vector<int64_t>& entries, const EvalIndices& official);
  ~GroupStore();
  GroupStore(const GroupStore&) = delete;
  GroupStore& operator=(const GroupStore&) = delete;

  /// Returns a group, opened if necessary; waits if another thread is opening it. The reference stays valid. Throws
  /// data::DataError, at every call, if the group is damaged or cannot be divided.
  const LoadedGroup& get(int64_t entry) const;
  /// Returns a group's values for the fitting of transforms. It reads only the summary of a packed group, and opens an
  /// .npz. Throws data::DataError as `get` does.
  TrainingPart training_part(int64_t entry) const;
  /// Returns the dataset entries that the store was made for, ascending.
  std::vector<int64_t> entries() const;

  /// Makes plan sources under `request` for all groups that are opened or requested from now on. Graphs that
  /// sampler.max_segment_nodes cuts get none, unless segments.stale is full_forward: they are planned by segment. Call
  /// it before other threads use groups of the store.
  void prepare_plans(const plans::PlanRequest& request);
  /// Starts opening these entries in this order in data.read_threads threads, and returns at once. Errors are thrown by
  /// `get` for that group, and by `check`. A second call appends its entries.
  void read_ahead(const std::vector<int64_t>& order);
  /// Returns whether some thread could not open a group. A run should then stop early.
  bool failed() const { return failed_; }
  /// Throws the first error of opening a group, if there was one.
  void check() const;

 private:
  struct Slot;
  /// Opens, prunes and divides a group.
  void open(Slot& slot) const;
  void prune(Slot& slot) const;
  /// Opens the entries of `ahead_` until the store is destroyed.
  void read_in_background();

  configs::Settings settings_;
  EvalIndices official_;
  std::map<int64_t, std::unique_ptr<Slot>> slots_;
  std::shared_ptr<const plans::PlanRequest> request_;  // plan request of the model; guarded by mutex_

  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::deque<int64_t> ahead_;
  bool stopping_ = false;
  mutable std::atomic<bool> failed_ = false;
  std::vector<std::jthread> readers_;
};

/// Returns the fold of each configuration, given by its hash: the number of the ensemble member that does not learn
/// from it. Candidates of one configuration are in one fold on every rank.
///
/// In cross-fitting (trainer.cross_fitting), each of the `members` (model.ensemble_size) learns from the folds of the
/// others. Out-of-fold scores, each by the member that did not learn from the candidate, measure the accuracy on
/// unmeasured candidates; tie thresholds are fitted to them (worker/evaluation/scoring.h).
std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed);

}  // namespace foretime::worker
