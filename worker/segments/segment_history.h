#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "comm/communicator.h"
#include "sharding/shard_plan.h"
#include "worker/segments/history.h"

namespace foretime::worker {

/// The history of this rank's graphs, as its samples see it.
///
/// A graph whose samples all fall to one batch slot is trained by one rank: its rows can be read as soon as they are
/// written. A graph whose samples fall to several slots (one that spans ranks, or has more samples than a slot has room
/// for) is *shared*: what is written waits in an outbox until the next `exchange` hands it to every rank that holds a
/// part of the graph. Batch slots do not depend on the number of ranks, so one rank alone sees the same rows at the
/// same steps as many.
class SegmentHistory {
 public:
  SegmentHistory(const sharding::ShardPlan& plan, int rank, int64_t columns, int64_t max_bytes);

  int64_t columns() const { return table_.columns(); }
  /// [columns] as last made visible, or null. Valid until the next write, exchange or restore.
  const float* find(const HistoryKey& key) const { return table_.find(key); }
  /// `sample_index`: of the sample that wrote the row; a later sample has a larger one, whatever rank it fell to.
  void write(const HistoryKey& key, int64_t sample_index, const float* row);
  /// Makes the outboxes of all ranks visible. All ranks call it at the same steps; without shared graphs it does
  /// nothing.
  void exchange(comm::Communicator& comm);
  int64_t bytes() const { return table_.bytes(); }

  /// Everything that `restore` needs, of all ranks, as a safetensors file on rank 0 (elsewhere empty). It depends on
  /// what was trained, not on the number of ranks. All ranks call it. `label` says what the values mean: it is kept
  /// with them.
  std::string gather(comm::Communicator& comm, const std::string& label) const;
  /// Takes this rank's rows out of a file that `gather` made, on any number of ranks; what was there before is
  /// forgotten. False, with an empty history, where the file's label is another. Throws models::ModelError for a file
  /// that is damaged, naming `origin`.
  bool restore(const std::string& file, const std::string& label, const std::string& origin);

 private:
  void write_all(HistoryRows rows);

  int rank_;
  std::set<int64_t> held_;             // entries that this rank trains on
  std::set<int64_t> shared_;           // entries whose samples fall to several slots, of all ranks
  std::map<int64_t, int> first_rank_;  // the lowest rank that trains on an entry
  HistoryTable table_;
  std::map<HistoryKey, std::pair<int64_t, std::vector<float>>> outbox_;  // sample index and row
};

}  // namespace foretime::worker
