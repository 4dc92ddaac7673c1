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

/// A group in memory, with its candidates divided. Duplicates of one configuration fall on the same side.
struct LoadedGroup {
  data::Group group;  // pruned to data.prune_hops; data.duplicates mean puts the mean run time at training candidates
  std::shared_ptr<const plans::PlanSource> plan_source = {};  // under the model's plan request; null: not prepared
  std::shared_ptr<const data::Segments> segments = {};  // of graphs that sampler.max_segment_nodes cuts, else null
  std::vector<int64_t> train = {};      // candidates to train on, ascending; empty unless the role is train
  std::vector<uint8_t> folds = {};      // [candidates] of folds_of; empty without, and unless the role is train
  std::vector<double> speed_rank = {};  // [train] 0: fastest … 1: slowest; empty where sampler.fast_bias is 0
  std::vector<int64_t> evaluated = {};  // candidates to evaluate: held out (train), or official or all (valid, test)
};

/// What is summed up over training groups before the first step.
struct TrainingPart {
  data::Group labels;                              // name, kind, candidates, run times and flops; no graph
  std::vector<int64_t> train;                      // as in LoadedGroup
  data::ColumnStatistics features, tile_features;  // of plain values, or of logarithms: model.features.log; of all
                                                   // nodes of the file, those that data.prune_hops cuts away as well
};

/// Official candidates by group name; groups that are not named are evaluated on all.
using data::EvalIndices;

/// The indices of data.eval_indices, relative to data.root; empty where none is named. Throws data::DataError.
EvalIndices load_official_indices(const configs::DataSettings& settings);

/// How settings ask for graphs to be cut; max_nodes is 0 where they are not.
data::SegmentRule segment_rule(const configs::Settings& settings);

/// The segments of a group whose graph the settings cut; null for all others.
std::shared_ptr<const data::Segments> segments_of(const data::Group& group, const configs::Settings& settings);

/// What a packed group's summary knows of it: no graph, nothing divided.
LoadedGroup labels_of(const data::GroupHeader& header, const data::GroupSummary& summary);

/// Divides a group's candidates as the settings say; a pure function of them and the group's contents. For training
/// groups `configurations` are the group's configuration hashes, computed where they are not given. data.duplicates
/// leaves the first training candidate of each configuration, and mean gives it the mean run time of all of them, in
/// `loaded.group`; held-out candidates are of other configurations and stay as they are. Throws data::DataError where
/// official indices are out of range, or a training group has no labels or no candidates left.
void divide_candidates(LoadedGroup& loaded, sharding::Role role, const configs::Settings& settings,
                       const EvalIndices& official, std::span<const uint64_t> configurations = {});

/// The groups of one rank, each opened at its first use: a packed group is mapped, and checked then; an .npz is read.
/// Groups stay until the store goes, so that a mapped one costs memory that the kernel can take back, and an .npz the
/// size of its codes. All but the constructor may be called from any thread.
class GroupStore {
 public:
  /// Opens nothing. Throws data::DataError where official indices are out of range.
  GroupStore(const configs::Settings& settings, const sharding::DatasetIndex& dataset,
             const std::vector<int64_t>& entries, const EvalIndices& official);
  ~GroupStore();
  GroupStore(const GroupStore&) = delete;
  GroupStore& operator=(const GroupStore&) = delete;

  /// Opens the group unless it is open, waiting for another thread that is about to. The reference stays good. Throws
  /// data::DataError, at every call, where it is damaged or cannot be divided.
  const LoadedGroup& get(int64_t entry) const;
  /// Reads a packed group's summary only, or opens an .npz. Throws data::DataError as get.
  TrainingPart training_part(int64_t entry) const;
  /// The dataset index's entries that the store was made for, ascending.
  std::vector<int64_t> entries() const;

  /// Groups that are opened, or asked for, after this have their plan source under `request`; graphs that
  /// sampler.max_segment_nodes cuts have none unless segments.stale is full_forward, they are planned by segment. Call
  /// it before others use what they got from the store.
  void prepare_plans(const plans::PlanRequest& request);
  /// Opens these entries in this order in data.read_threads threads, and returns at once. What goes wrong is thrown
  /// when the group is asked for, and by `check`. Called again, it continues with the new entries after the others.
  void read_ahead(const std::vector<int64_t>& order);
  /// Whether a group could not be opened by any thread. A run should not go on for hours to meet it at its end.
  bool failed() const { return failed_; }
  /// Throws what the first group threw that could not be opened; nothing where all could.
  void check() const;

 private:
  struct Slot;
  void open(Slot& slot) const;
  void prune(Slot& slot) const;
  void read_in_background();

  configs::Settings settings_;
  EvalIndices official_;
  std::map<int64_t, std::unique_ptr<Slot>> slots_;
  std::shared_ptr<const plans::PlanRequest> request_;  // guarded by mutex_

  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::deque<int64_t> ahead_;
  bool stopping_ = false;
  mutable std::atomic<bool> failed_ = false;
  std::vector<std::jthread> readers_;
};

/// The fold of each configuration, given by its hash: the ensemble member that does not learn from it. Candidates of
/// one configuration are in one fold, whatever rank asks.
///
/// This is cross-fitting (trainer.cross_fitting): members (model.ensemble_size) learn from the folds of the others.
/// Out-of-fold scores, a candidate's score by the member that has not seen it, show how well scores order candidates
/// that nobody measured: tie thresholds (worker/evaluation/scoring.h) are found from them.
std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed);

}  // namespace foretime::worker
