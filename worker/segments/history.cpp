#include "worker/segments/history.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foretime::worker {
namespace {

constexpr int64_t kBlockValues = 256;
constexpr int64_t kAgeBytes = 80;  // of a node of the ordered set

}  // namespace

void HistoryRows::append(const HistoryKey& key, int64_t sample_index, const float* row, int64_t columns) {
  keys.push_back(key);
  sample_indices.push_back(sample_index);
  values.insert(values.end(), row, row + columns);
}

void HistoryRows::append(const HistoryRows& more) {
  keys.insert(keys.end(), more.keys.begin(), more.keys.end());
  sample_indices.insert(sample_indices.end(), more.sample_indices.begin(), more.sample_indices.end());
  values.insert(values.end(), more.values.begin(), more.values.end());
}

HistoryTable::HistoryTable(int64_t columns, int64_t max_bytes)
    : columns_(columns),
      max_bytes_(max_bytes),
      rows_per_block_(std::max<int64_t>(1, kBlockValues / std::max<int64_t>(1, columns))) {}

HistoryTable::Block& HistoryTable::block_for(const HistoryKey& key) {
  auto& blocks = tables_[{key.entry, key.segment}];
  const auto index = static_cast<size_t>(key.candidate / rows_per_block_);
  if (index >= blocks.size()) blocks.resize(index + 1);
  auto& block = blocks[index];
  if (!block.rows) {
    const auto values = static_cast<size_t>(rows_per_block_ * columns_);
    block.rows = std::make_unique_for_overwrite<float[]>(values);
    std::fill_n(block.rows.get(), values, std::numeric_limits<float>::quiet_NaN());
    bytes_ += static_cast<int64_t>(values * sizeof(float)) + kAgeBytes;
  }
  return block;
}

void HistoryTable::write(const HistoryKey& key, int64_t sample_index, const float* row) {
  if (std::isnan(row[0])) return;
  auto& block = block_for(key);
  const TableKey table{key.entry, key.segment};
  const int64_t index = key.candidate / rows_per_block_;
  ages_.erase({block.sample_index, table, index});
  block.sample_index = std::max(block.sample_index, sample_index);
  ages_.insert({block.sample_index, table, index});
  std::copy_n(row, columns_, block.rows.get() + key.candidate % rows_per_block_ * columns_);
  forget_oldest(&block);
}

void HistoryTable::forget_oldest(const Block* keep) {
  while (bytes_ > max_bytes_) {
    const auto oldest = ages_.begin();
    const auto& [sample_index, table, index] = *oldest;
    auto& block = tables_.at(table)[static_cast<size_t>(index)];
    if (&block == keep) return;  // at most one block more than allowed
    block.rows.reset();
    bytes_ -= rows_per_block_ * columns_ * static_cast<int64_t>(sizeof(float)) + kAgeBytes;
    ages_.erase(oldest);
  }
}

const float* HistoryTable::find(const HistoryKey& key) const {
  const auto table = tables_.find({key.entry, key.segment});
  if (table == tables_.end()) return nullptr;
  const auto index = static_cast<size_t>(key.candidate / rows_per_block_);
  if (index >= table->second.size() || !table->second[index].rows) return nullptr;
  const float* row = table->second[index].rows.get() + key.candidate % rows_per_block_ * columns_;
  return std::isnan(row[0]) ? nullptr : row;
}

void HistoryTable::append_rows(const TableKey& table, const Blocks& blocks, HistoryRows& to) const {
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (!blocks[b].rows) continue;
    for (int64_t i = 0; i < rows_per_block_; ++i) {
      const float* row = blocks[b].rows.get() + i * columns_;
      if (std::isnan(row[0])) continue;
      to.append({table.first, table.second, static_cast<int64_t>(b) * rows_per_block_ + i}, blocks[b].sample_index, row,
                columns_);
    }
  }
}

HistoryRows HistoryTable::rows() const {
  HistoryRows all;
  for (const auto& [table, blocks] : tables_) append_rows(table, blocks, all);
  return all;
}

HistoryRows HistoryTable::rows(int64_t entry) const {
  HistoryRows some;
  for (auto at = tables_.lower_bound({entry, 0}); at != tables_.end() && at->first.first == entry; ++at) {
    append_rows(at->first, at->second, some);
  }
  return some;
}

void HistoryTable::clear() {
  tables_.clear();
  ages_.clear();
  bytes_ = 0;
}

}  // namespace foretime::worker
