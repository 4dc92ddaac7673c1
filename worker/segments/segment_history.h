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

/// Identifies a row of the history: the last value of segment `segment` for candidate `candidate` of the dataset
/// index's entry `entry`.
struct HistoryKey {
  int64_t entry = 0;
  int64_t segment = 0;
  int64_t candidate = 0;
  auto operator<=>(const HistoryKey&) const = default;
};

/// Holds history rows that go to a file or to another rank.
struct HistoryRows {
  std::vector<HistoryKey> keys;
  std::vector<int64_t> sample_indices;  // [rows] index of the sample that wrote the row
  std::vector<float> values;            // [rows, columns]

  void append(const HistoryKey& key, int64_t sample_index, const float* row, int64_t columns);
  void append(const HistoryRows& more);
  int64_t size() const { return keys.size(); }
};

/// Keeps past scores (one column) or pools (several) of segments, float32. Memory grows in blocks as rows are written.
/// If it exceeds `max_bytes`, the block that was written longest ago is dropped with its rows. A block holds the rows
/// of consecutive candidates of one segment, about 1 KiB.
class HistoryTable {
 public:
  HistoryTable(int64_t columns, int64_t max_bytes);

  int64_t columns() const { return columns_; }
  /// Stores a copy of `row` [columns]. A row that starts with NaN is not stored, because NaN marks rows that were never
  /// written; training that diverges ends anyway.
  void write(const HistoryKey& key, int64_t sample_index, const float* row);
  /// Returns the row [columns], or null if there is none. The pointer is valid until the next write.
  const float* find(const HistoryKey& key) const;
  /// Returns the memory of all blocks. The index of the blocks adds a few per cent of the full size.
  int64_t bytes() const { return bytes_; }
  /// Returns all rows of one entry, by key. Each row has the sample index of its block's newest row.
  HistoryRows rows(int64_t entry) const;
  void clear();

 private:
  struct Block {
    std::unique_ptr<float[]> rows;
    int64_t sample_index = 0;
  };
  using Blocks = std::vector<Block>;                   // index: candidate / rows_per_block_
  using TableKey = std::pair<int64_t, int64_t>;        // entry, segment
  using Age = std::tuple<int64_t, TableKey, int64_t>;  // sample index, table, block

  /// Returns the block of a row, made if necessary.
  Block& block_for(const HistoryKey& key);
  /// Drops the blocks that were written longest ago, except `keep`, until the memory is within its limit.
  void forget_oldest(const Block* keep);

  int64_t columns_, max_bytes_, rows_per_block_;
  int64_t bytes_ = 0;
  std::map<TableKey, Blocks> tables_;
  std::set<Age> ages_;
};

/// Keeps the history of this rank's graphs.
///
/// A graph whose samples all fall to one batch slot is trained by one rank, which can read its rows as soon as they are
/// written. A graph whose samples fall to several slots (it spans ranks, or has more samples than a slot holds) is
/// *shared*: its new rows wait in an outbox until the next `exchange` sends them to every rank that holds a part of the
/// graph. Batch slots do not depend on the number of ranks, so one rank sees the same rows at the same steps as many
/// ranks.
class SegmentHistory {
 public:
  SegmentHistory(const sharding::ShardPlan& plan, int rank, int64_t columns, int64_t max_bytes);

  int64_t columns() const { return table_.columns(); }
  /// Returns the visible row [columns], or null if there is none. Valid until the next write, exchange or restore.
  const float* find(const HistoryKey& key) const { return table_.find(key); }
  /// Stores a row. `sample_index` is the index of the sample that wrote it; later samples have larger ones on every
  /// rank.
  void write(const HistoryKey& key, int64_t sample_index, const float* row);
  /// Makes the outboxes of all ranks visible. All ranks call it at the same steps. It does nothing if no graph is
  /// shared.
  void exchange(comm::Communicator& comm);

  /// Returns the rows of all ranks as a safetensors file on rank 0, "" on other ranks. The file does not depend on the
  /// number of ranks. All ranks call it. `label` describes the values and is stored with them.
  std::string gather(comm::Communicator& comm, const std::string& label) const;
  /// Replaces the history by this rank's rows of a file that `gather` made on any number of ranks. Returns false, with
  /// an empty history, if the file has another label. Throws models::ModelError, naming `origin`, if the file is
  /// damaged.
  bool restore(const std::string& file, const std::string& label, const std::string& origin);

 private:
  /// Stores the rows of entries that this rank trains on, in the order of their samples.
  void write_all(HistoryRows rows);

  int rank_;
  std::set<int64_t> own_entries_;      // entries that this rank trains on
  std::set<int64_t> shared_;           // entries whose samples fall to several slots, of all ranks
  std::map<int64_t, int> first_rank_;  // the lowest rank that trains on an entry
  HistoryTable table_;
  std::map<HistoryKey, std::pair<int64_t, std::vector<float>>> outbox_;  // sample index and row
};

}  // namespace foretime::worker
