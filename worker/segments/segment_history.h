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

/// Identifies a row of the history: the last value of a segment for a candidate of a dataset entry's group.
struct HistoryKey {
  int64_t entry = 0;
  int64_t segment = 0;
  int64_t candidate = 0;
  auto operator<=>(const HistoryKey&) const = default;
};

/// Holds history rows for a file or another rank.
struct HistoryRows {
  std::vector<HistoryKey> keys;
  std::vector<int64_t> sample_indices;  // [rows] index of the sample that wrote the row (Sample::index)
  std::vector<float> values;            // [rows, columns]

  void append(const HistoryKey& key, int64_t sample_index, const float* row, int64_t columns);
  void append(const HistoryRows& more);
  int64_t size() const { return keys.size(); }
};

/// Keeps past scores (one column) or pools (several columns) of segments, float32. Memory grows in blocks as rows are
/// written. While it exceeds `max_bytes`, the block of the oldest sample is dropped with its rows, except the block
/// written last. A block holds the rows of consecutive candidates of one segment: 256 values or a single longer row.
class HistoryTable {
 public:
  HistoryTable(int64_t columns, int64_t max_bytes);

  int64_t columns() const { return columns_; }
  /// Stores a copy of `row` [columns] in place of an older row of `key`. A row that starts with NaN is not stored,
  /// because NaN marks rows that were never written; a training with such rows has diverged and ends.
  void write(const HistoryKey& key, int64_t sample_index, const float* row);
  /// Returns the row [columns] of `key`; null if it was not stored or was dropped. Valid until the next write or clear.
  const float* find(const HistoryKey& key) const;
  /// Returns the bytes of all blocks. The index of the blocks, a few per cent of max_bytes, is not included.
  int64_t bytes() const { return bytes_; }
  /// Returns all rows of dataset entry `entry`, by key. Each row has the sample index of the newest row in its block.
  HistoryRows rows(int64_t entry) const;
  /// Drops all rows.
  void clear();

 private:
  struct Block {
    std::unique_ptr<float[]> rows;
    int64_t sample_index = 0;
  };
  using Blocks = std::vector<Block>;                   // index: candidate / rows_per_block_
  using TableKey = std::pair<int64_t, int64_t>;        // entry, segment
  using Age = std::tuple<int64_t, TableKey, int64_t>;  // sample index, table, block

  /// Returns the block of the row of `key`, made if necessary.
  Block& block_for(const HistoryKey& key);
  /// Drops the blocks of the oldest samples, but not `keep`, until the memory is at most max_bytes_.
  void forget_oldest(const Block* keep);

  int64_t columns_, max_bytes_, rows_per_block_;
  int64_t bytes_ = 0;
  std::map<TableKey, Blocks> tables_;
  std::set<Age> ages_;
};

/// Keeps the history of this rank's graphs.
///
/// If all samples of a graph belong to one batch slot, one rank trains on the graph and finds rows as soon as they are
/// written. If they belong to several slots (the graph has several parts, or more samples than a slot holds), the graph
/// is *shared*: new rows wait in an outbox until the next exchange() sends them to every rank that trains on the graph.
/// Batch slots do not depend on the number of ranks, so any number of ranks finds the same rows at the same steps.
class SegmentHistory {
 public:
  SegmentHistory(const sharding::ShardPlan& plan, int rank, int64_t columns, int64_t max_bytes);

  int64_t columns() const { return table_.columns(); }
  /// Returns the row [columns], or null. Rows that wait for exchange() are not found. Valid until the next change.
  const float* find(const HistoryKey& key) const { return table_.find(key); }
  /// Stores a copy of `row` [columns]; of several rows of a key the one with the largest Sample::index remains.
  void write(const HistoryKey& key, int64_t sample_index, const float* row);
  /// Stores the waiting rows of all ranks, if a graph is shared. All ranks call it at the same steps.
  void exchange(comm::Communicator& comm);

  /// Returns the rows of all ranks, also waiting ones, as a safetensors file on rank 0; "" on other ranks. The file
  /// does not depend on the number of ranks. All ranks call it. The file holds `label`, which describes the values.
  std::string gather(comm::Communicator& comm, const std::string& label) const;
  /// Replaces the history by this rank's rows of a file that `gather` made on any number of ranks. Returns false, with
  /// an empty history, if the file has another label. Throws models::ModelError, naming `origin`, if the file is
  /// damaged.
  bool restore(const std::string& file, const std::string& label, const std::string& origin);

 private:
  /// Stores those of the rows whose entries this rank trains on, in the order of the samples.
  void write_all(HistoryRows rows);

  int rank_;
  std::set<int64_t> own_entries_;      // entries that this rank trains on
  std::set<int64_t> shared_;           // entries whose samples fall to several slots, of all ranks
  std::map<int64_t, int> first_rank_;  // the lowest rank that trains on an entry
  HistoryTable table_;
  // waiting rows of shared graphs: sample index and row [columns]
  std::map<HistoryKey, std::pair<int64_t, std::vector<float>>> outbox_;
};

}  // namespace foretime::worker
