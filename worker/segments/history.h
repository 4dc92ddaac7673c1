#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

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
  /// All rows by key. A row has the sample index of its block's newest row, which is all that forgetting goes by.
  HistoryRows rows() const;
  /// All rows of one entry, by key.
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
  void append_rows(const TableKey& table, const Blocks& blocks, HistoryRows& to) const;

  int64_t columns_, max_bytes_, rows_per_block_;
  int64_t bytes_ = 0;
  std::map<TableKey, Blocks> tables_;
  std::set<Age> ages_;
};

}  // namespace foretime::worker
