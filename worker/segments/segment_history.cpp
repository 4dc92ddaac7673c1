#include "worker/segments/segment_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/graph/error.h"
#include "models/safetensors.h"

namespace foretime::worker {
namespace {

constexpr int64_t kBlockValues = 256;
constexpr int64_t kAgeBytes = 80;  // size of a node of the ordered set

constexpr int64_t kKeyWords = 4;  // entry, segment, candidate, sample index

/// The rows by key, and of one key by age, as two tensors.
void add_tensors(const HistoryRows& rows, int64_t columns, const std::string& name, models::NamedTensors& to) {
  std::vector<size_t> order(rows.keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(rows.keys[a], rows.sample_indices[a]) < std::tie(rows.keys[b], rows.sample_indices[b]);
  });
  auto keys = torch::empty({rows.size(), kKeyWords}, torch::kLong);
  auto values = torch::empty({rows.size(), columns}, torch::kFloat);
  auto* key = keys.data_ptr<int64_t>();
  auto* value = values.data_ptr<float>();
  for (const size_t i : order) {
    *key++ = rows.keys[i].entry;
    *key++ = rows.keys[i].segment;
    *key++ = rows.keys[i].candidate;
    *key++ = rows.sample_indices[i];
    value = std::copy_n(rows.values.data() + i * columns, columns, value);
  }
  to.emplace_back(name + ".keys", keys);
  to.emplace_back(name + ".values", values);
}

HistoryRows rows_of(const models::Safetensors& file, int64_t columns, const std::string& name,
                    const std::string& origin) {
  const auto tensor = [&](const std::string& part, torch::Dtype type, int64_t width) {
    const auto found = file.tensors.find(name + part);
    if (found == file.tensors.end() || found->second.dim() != 2 || found->second.size(1) != width ||
        found->second.scalar_type() != type) {
      throw models::ModelError("{}: tensor {}{}: missing, or of another shape or type; expected {} columns", origin,
                               name, part, width);
    }
    return found->second.contiguous();
  };
  const auto keys = tensor(".keys", torch::kLong, kKeyWords);
  const auto values = tensor(".values", torch::kFloat, columns);
  if (keys.size(0) != values.size(0))
    throw models::ModelError("{}: {} keys, expected {} as there are values", origin, keys.size(0), values.size(0));
  HistoryRows rows;
  const auto* key = keys.data_ptr<int64_t>();
  for (int64_t i = 0; i < keys.size(0); ++i, key += kKeyWords) {
    if (std::any_of(key, key + kKeyWords, [](int64_t word) { return word < 0; }))
      throw models::ModelError("{}: key of row {}: negative, expected ids from 0", origin, i);
    rows.append({key[0], key[1], key[2]}, key[3], values.data_ptr<float>() + i * columns, columns);
  }
  return rows;
}

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
  const size_t index = key.candidate / rows_per_block_;
  if (index >= blocks.size()) blocks.resize(index + 1);
  auto& block = blocks[index];
  if (!block.rows) {
    const size_t values = rows_per_block_ * columns_;
    block.rows = std::make_unique_for_overwrite<float[]>(values);
    std::fill_n(block.rows.get(), values, std::numeric_limits<float>::quiet_NaN());
    bytes_ += values * sizeof(float) + kAgeBytes;
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
    auto& block = tables_.at(table)[index];
    if (&block == keep) return;  // the table may exceed its limit by one block
    block.rows.reset();
    bytes_ -= rows_per_block_ * columns_ * sizeof(float) + kAgeBytes;
    ages_.erase(oldest);
  }
}

const float* HistoryTable::find(const HistoryKey& key) const {
  const auto table = tables_.find({key.entry, key.segment});
  if (table == tables_.end()) return nullptr;
  const size_t index = key.candidate / rows_per_block_;
  if (index >= table->second.size() || !table->second[index].rows) return nullptr;
  const float* row = table->second[index].rows.get() + key.candidate % rows_per_block_ * columns_;
  return std::isnan(row[0]) ? nullptr : row;
}

HistoryRows HistoryTable::rows(int64_t entry) const {
  HistoryRows some;
  for (auto at = tables_.lower_bound({entry, 0}); at != tables_.end() && at->first.first == entry; ++at) {
    const auto& [table, blocks] = *at;
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (!blocks[b].rows) continue;
      for (int64_t i = 0; i < rows_per_block_; ++i) {
        const float* row = blocks[b].rows.get() + i * columns_;
        if (std::isnan(row[0])) continue;
        some.append({entry, table.second, static_cast<int64_t>(b) * rows_per_block_ + i}, blocks[b].sample_index, row,
                    columns_);
      }
    }
  }
  return some;
}

void HistoryTable::clear() {
  tables_.clear();
  ages_.clear();
  bytes_ = 0;
}

SegmentHistory::SegmentHistory(const sharding::ShardPlan& plan, int rank, int64_t columns, int64_t max_bytes)
    : rank_(rank), table_(columns, max_bytes) {
  std::map<int64_t, size_t> lane_of;
  for (size_t lane = 0; lane < plan.slots.size(); ++lane) {
    for (const auto& share : plan.slots[lane].shares) {
      const auto [at, added] = lane_of.emplace(share.entry, lane);
      if (!added && at->second != lane) shared_.insert(share.entry);
      const int owner = plan.slot_rank[lane];
      if (owner == rank) own_entries_.insert(share.entry);
      const auto first = first_rank_.emplace(share.entry, owner).first;
      first->second = std::min(first->second, owner);
    }
  }
}

void SegmentHistory::write(const HistoryKey& key, int64_t sample_index, const float* row) {
  if (!shared_.contains(key.entry)) {
    table_.write(key, sample_index, row);
    return;
  }
  auto& waiting = outbox_[key];
  if (waiting.second.empty() || waiting.first <= sample_index) waiting = {sample_index, {row, row + table_.columns()}};
}

/// Writes rows in the order of their samples, so that the latest row of each key remains.
void SegmentHistory::write_all(HistoryRows rows) {
  std::vector<size_t> order(rows.keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(rows.sample_indices[a], rows.keys[a]) < std::tie(rows.sample_indices[b], rows.keys[b]);
  });
  for (const size_t i : order) {
    if (!own_entries_.contains(rows.keys[i].entry)) continue;
    table_.write(rows.keys[i], rows.sample_indices[i], rows.values.data() + i * table_.columns());
  }
}

void SegmentHistory::exchange(comm::Communicator& comm) {
  if (shared_.empty()) return;
  HistoryRows own;
  for (const auto& [key, row] : outbox_) own.append(key, row.first, row.second.data(), table_.columns());
  outbox_.clear();
  if (comm.size() == 1) {
    write_all(std::move(own));
    return;
  }
  models::NamedTensors tensors;
  add_tensors(own, table_.columns(), "rows", tensors);
  HistoryRows all;
  for (const auto& bytes : comm.all_gather_bytes(models::serialize_safetensors(tensors))) {
    const std::string origin = "history rows of another rank";
    all.append(rows_of(models::parse_safetensors(bytes, origin), table_.columns(), "rows", origin));
  }
  write_all(std::move(all));
}

std::string SegmentHistory::gather(comm::Communicator& comm, const std::string& label) const {
  HistoryRows visible, waiting;
  for (const int64_t entry : own_entries_)
    if (first_rank_.at(entry) == rank_) visible.append(table_.rows(entry));
  for (const auto& [key, row] : outbox_) waiting.append(key, row.first, row.second.data(), table_.columns());
  const auto file = [&](const HistoryRows& rows, const HistoryRows& pending) {
    models::NamedTensors tensors;
    add_tensors(rows, table_.columns(), "rows", tensors);
    add_tensors(pending, table_.columns(), "waiting", tensors);
    return models::serialize_safetensors(tensors, {{"format", "foretime history"}, {"values", label}});
  };
  if (comm.size() == 1) return file(visible, waiting);
  const auto gathered = comm.all_gather_bytes(file(visible, waiting));
  if (comm.rank() != 0) return "";
  visible = waiting = {};
  for (const auto& bytes : gathered) {
    const auto part = models::parse_safetensors(bytes, "history of another rank");
    visible.append(rows_of(part, table_.columns(), "rows", "history of another rank"));
    waiting.append(rows_of(part, table_.columns(), "waiting", "history of another rank"));
  }
  return file(visible, waiting);
}

bool SegmentHistory::restore(const std::string& file, const std::string& label, const std::string& origin) {
  table_.clear();
  outbox_.clear();
  const auto stored = models::parse_safetensors(file, origin);
  const auto kept = stored.metadata.find("values");
  if (kept == stored.metadata.end() || kept->second != label) return false;
  write_all(rows_of(stored, table_.columns(), "rows", origin));
  // Whoever holds them at the next exchange hands them to all.
  if (rank_ != 0) return true;
  const auto waiting = rows_of(stored, table_.columns(), "waiting", origin);
  for (size_t i = 0; i < waiting.keys.size(); ++i) {
    const float* row = waiting.values.data() + i * table_.columns();
    outbox_[waiting.keys[i]] = {waiting.sample_indices[i], {row, row + table_.columns()}};
  }
  return true;
}

}  // namespace foretime::worker
