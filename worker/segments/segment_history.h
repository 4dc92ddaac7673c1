#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "sharding/shard_plan.h"

namespace foretime::worker {

/// Which value a row of the history is: candidate `candidate` of the dataset index's entry `entry`, as its segment
/// `segment` was last seen.
struct HistoryKey {
  int64_t entry = 0;
  int64_t segment = 0;
  int64_t candidate = 0;
  auto operator<=>(const HistoryKey&) const = default;
};

/// Rows on their way to a file or to another rank.
struct HistoryRows {
  std::vector<HistoryKey> keys;
  std::vector<int64_t> sample_indices;  // [rows] of the sample that wrote each
  std::vector<float> values;            // [rows, columns]

  void append(const HistoryKey& key, int64_t sample_index, const float* row, int64_t columns);
  void append(const HistoryRows& more);
  int64_t size() const { return static_cast<int64_t>(keys.size()); }
};

/// Past scores (one column) or pools (several) of segments, float32. Memory is taken block by block, as rows are
/// written, and bounded: past `max_bytes` the block that was written longest ago is forgotten, so that its rows are as
/// if they had never been written. Blocks hold the rows of consecutive candidates of one segment, about 1 KiB each.
class HistoryTable {
 public:
  HistoryTable(int64_t columns, int64_t max_bytes);

  int64_t columns() const { return columns_; }
  /// Keeps `row` [columns]. A row that starts with NaN is not kept: training that diverges ends of itself, and NaN
  /// marks what was never written.
  void write(const HistoryKey& key, int64_t sample_index, const float* row);
  /// [columns], or null where there is no such row. Valid until the next write.
  const float* find(const HistoryKey& key) const;
  /// Memory of all blocks. The lists that lead to them take some hundredths of what all blocks would.
  int64_t bytes() const { return bytes_; }
  /// All rows of one entry, by key. A row has the sample index of its block's newest row, which is all that forgetting
  /// goes by.
  HistoryRows rows(int64_t entry) const;
  void clear();

 private:
  struct Block {
    std::unique_ptr<float[]> rows;
    int64_t sample_index = 0;
  };
  using Blocks = std::vector<Block>;                   // by candidate / rows_per_block_
  using TableKey = std::pair<int64_t, int64_t>;        // entry, segment
  using Age = std::tuple<int64_t, TableKey, int64_t>;  // sample index, table, block

  Block& block_for(const HistoryKey& key);
  void forget_oldest(const Block* keep);

  int64_t columns_, max_bytes_, rows_per_block_;
  int64_t bytes_ = 0;
  std::map<TableKey, Blocks> tables_;
  std::set<Age> ages_;
};

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
