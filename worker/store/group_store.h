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

#include "base/no_copy.h"
#include "configs/settings.h"
#include "data/dataset/group_files.h"
#include "data/graphs/group.h"
#include "data/graphs/segments.h"
#include "plans/plan_source.h"
#include "sharding/dataset_index.h"

namespace foretime::worker {

/// Holds a group in memory, and the candidates to train on and to evaluate. Configurations are never in both.
struct LoadedGroup {
  data::Group group;  // pruned to data.prune_hops; run times of `train` are means with data.duplicates mean
  std::shared_ptr<const plans::PlanSource> plan_source = {};  // made for the model's plan request; null: not prepared
  std::shared_ptr<const data::Segments> segments = {};        // null: the graph is not cut (segments_of)
  std::vector<int64_t> train = {};  // candidates to train on, ascending; empty unless the role is train
  // [candidates of the group] folds (folds_of); empty unless the role is train and trainer.cross_fitting is set
  std::vector<uint8_t> folds = {};
  std::vector<double> speed_rank = {};  // [train] rank by run time, 0 (fastest) to 1; empty if sampler.fast_bias is 0
  std::vector<int64_t> evaluated = {};  // candidates to evaluate: held-out ones, or for valid and test official or all
};

/// Holds the values of a training group to which transforms are fitted before the first step.
struct TrainingPart {
  data::Group labels;          // name, kind, candidates, run times and flops; no graph
  std::vector<int64_t> train;  // see LoadedGroup
  // Statistics of features (of their logarithms with model.features.log), over all nodes of the file before pruning.
  data::ColumnStatistics features, tile_features;
};

/// Names the candidates that a group of valid or test is evaluated on, by group name; all if the group has no entry.
using data::EvalIndices;

/// Reads the file data.eval_indices in data.root; empty if the setting is "". Throws data::DataError and StorageError.
EvalIndices load_official_indices(const configs::DataSettings& settings);

/// Returns the rule by which the settings cut graphs into segments; max_nodes is 0 if graphs are not cut.
data::SegmentRule segment_rule(const configs::Settings& settings);

/// Returns the segments of a layout group of more than sampler.max_segment_nodes (> 0) nodes; null for others.
std::shared_ptr<const data::Segments> segments_of(const data::Group& group, const configs::Settings& settings);

/// Returns a group with name, kind, number of candidates, run times and flops, without a graph, for divide_candidates.
LoadedGroup labels_of(const data::GroupHeader& header, const data::GroupSummary& summary);

/// Sets the members train, folds, speed_rank and evaluated of `loaded` by its group and the settings. `configurations`
/// holds the group's configuration hashes; if empty, they are computed for training groups. Unless data.duplicates is
/// keep, only the first training candidate of each configuration is left in `train`; `mean` sets its run time in
/// `loaded.group` to the mean of those that ran. At most data.max_eval_candidates that are not official are evaluated;
/// all of a group without run times. Throws data::DataError if official indices are out of range, or a training group
/// has no run times or no candidate to train on.
void divide_candidates(LoadedGroup& loaded, sharding::Role role, const configs::Settings& settings,
                       const EvalIndices& official, std::span<const uint64_t> configurations = {});

/// Holds the groups of one rank and opens each at its first use: a packed group is mapped and checked, an .npz is read.
/// Groups stay open until the store is destroyed; the kernel can reclaim the memory of mapped groups. Any thread may
/// call the functions, except prepare_plans and read_ahead, which one thread calls.
class GroupStore : NoCopy {
 public:
  /// Makes a store for these dataset entries. Opens none. Throws data::DataError if official indices are out of range.
  GroupStore(const configs::Settings& settings, const sharding::DatasetIndex& dataset,
             const std::vector<int64_t>& entries, const EvalIndices& official);
  ~GroupStore();

  /// Returns the group of one of entries(), opened at the first call. The reference is valid as long as the store.
  /// Throws, at every call, data::DataError if the group is damaged or divide_candidates throws; StorageError.
  const LoadedGroup& get(int64_t entry) const;
  /// Returns the values of a training group for fitting transforms. Reads only the summary of a packed group, and opens
  /// an .npz as get() does. Throws as get() does.
  TrainingPart training_part(int64_t entry) const;
  /// Returns the dataset entries that the store was made for, ascending.
  std::vector<int64_t> entries() const;

  /// Makes LoadedGroup::plan_source for `request` in all later calls of get(). Graphs in segments get none unless
  /// segments.stale is full_forward. Must be called before other threads use groups of the store.
  void prepare_plans(const plans::PlanRequest& request);
  /// Starts to open these entries in this order in data.read_threads threads, and returns at once. get() of the group
  /// and check() throw the errors. A second call appends entries to those of the first.
  void read_ahead(const std::vector<int64_t>& order);
  /// Returns whether a group could not be opened or divided.
  bool failed() const { return failed_; }
  /// Throws the error of the lowest dataset entry that could not be opened; returns if there is none.
  void check() const;

 private:
  struct Slot;
  /// Opens, divides, prunes and cuts the group, and makes its plan source, as far as not done. Needs the slot's mutex.
  void open(Slot& slot) const;
  /// Prunes an opened group. Needs the slot's mutex.
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

/// Returns the fold of each configuration hash: the number, from 0 to members - 1, of the ensemble member that does not
/// learn from the configuration in cross-fitting (trainer.cross_fitting). The fold depends only on hash, `members` and
/// seed. Scores by the member that did not learn from a candidate measure the accuracy on unmeasured candidates; tie
/// thresholds are fitted to them (worker/evaluation/scoring.h).
std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed);

}  // namespace foretime::worker
