#include "data/graphs/layout_coder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace foretime::data {
namespace {

constexpr size_t kMostRows = 256;
constexpr size_t kMostRawRows = 2048;  // beyond, rows are converted each time

uint64_t hash_words(const std::array<uint64_t, 9>& words) {
  uint64_t hash = 0;
  for (const uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL + (hash >> 29);
  return hash ^ hash >> 32;
}

}  // namespace

LayoutCoder::LayoutCoder(std::vector<int32_t> nodes, std::string origin)
    : nodes_(std::move(nodes)), origin_(std::move(origin)), tables_(nodes_.size()) {}

template <class T>
LayoutCoder::Row LayoutCoder::whole_numbers(const T* row, size_t node) const {
  Row whole;
  for (size_t k = 0; k < whole.size(); ++k) {
    const bool fits = row[k] >= T(-128) && row[k] <= T(127);  // false for NaN too
    if (!fits || static_cast<T>(static_cast<int8_t>(row[k])) != row[k])
      throw DataError("{}: {} at candidate {}, node {}, column {}, expected a whole number from -128 to 127", origin_,
                      row[k], candidate_, nodes_[node], k);
    whole[k] = row[k];
  }
  return whole;
}

uint8_t LayoutCoder::code_of(Table& table, const Row& row, size_t node) {
  const auto found = std::ranges::find(table.rows, row);
  if (found == table.rows.end() && table.rows.size() == kMostRows)
    throw DataError("{}: candidate {} has the {}th distinct layout of node {}, expected at most {}", origin_,
                    candidate_, kMostRows + 1, nodes_[node], kMostRows);
  const uint8_t code = found - table.rows.begin();
  if (found == table.rows.end()) table.rows.push_back(row);
  return code;
}

void LayoutCoder::remember(Table& table, const RawRow& raw) {
  table.raw.push_back(raw);
  if (table.raw.size() * 2 > table.slots.size()) table.slots.assign(std::max<size_t>(8, table.slots.size() * 2), 0);
  const auto place = [&](size_t position) {
    size_t slot = table.raw[position].hash & (table.slots.size() - 1);
    while (table.slots[slot] != 0) slot = (slot + 1) & (table.slots.size() - 1);
    table.slots[slot] = position + 1;
  };
  const bool rebuilt = std::ranges::all_of(table.slots, [](uint16_t s) { return s == 0; });
  for (size_t position = rebuilt ? 0 : table.raw.size() - 1; position < table.raw.size(); ++position) place(position);
  table.last = table.raw.size() - 1;
}

uint8_t LayoutCoder::code_of_raw(Table& table, const float* row, size_t node) {
  RawRow raw;
  static_assert(sizeof raw.words == kLayoutFeatures * sizeof(float));
  if (!table.raw.empty() && std::memcmp(table.raw[table.last].words.data(), row, sizeof raw.words) == 0)
    return table.raw[table.last].code;
  std::memcpy(raw.words.data(), row, sizeof raw.words);
  raw.hash = hash_words(raw.words);
  if (!table.slots.empty()) {
    size_t slot = raw.hash & (table.slots.size() - 1);
    for (; table.slots[slot] != 0; slot = (slot + 1) & (table.slots.size() - 1)) {
      const RawRow& seen = table.raw[table.slots[slot] - 1u];
      if (seen.hash == raw.hash && seen.words == raw.words) {
        table.last = table.slots[slot] - 1;
        return seen.code;
      }
    }
  }
  raw.code = code_of(table, whole_numbers(row, node), node);
  if (table.raw.size() < kMostRawRows) remember(table, raw);
  return raw.code;
}

void LayoutCoder::add_candidate(const float* rows, uint8_t* codes) {
  for (size_t j = 0; j < tables_.size(); ++j) codes[j] = code_of_raw(tables_[j], rows + j * kLayoutFeatures, j);
  ++candidate_;
}

void LayoutCoder::add_candidate(const double* rows, uint8_t* codes) {
  for (size_t j = 0; j < tables_.size(); ++j)
    codes[j] = code_of(tables_[j], whole_numbers(rows + j * kLayoutFeatures, j), j);
  ++candidate_;
}

LayoutCandidates LayoutCoder::finish(int64_t candidates) && {
  if (candidates != candidate_)
    throw DataError("{}: {} candidates were coded, expected {}", origin_, candidate_, candidates);
  LayoutCandidates layout;
  std::vector<int64_t> row_ptr = {0};
  std::vector<int8_t> rows;
  for (const Table& table : tables_) {
    for (const Row& row : table.rows) rows.insert(rows.end(), row.begin(), row.end());
    row_ptr.push_back(row_ptr.back() + std::ssize(table.rows));
  }
  layout.nodes = std::move(nodes_);
  layout.row_ptr = std::move(row_ptr);
  layout.rows = std::move(rows);
  return layout;
}

Group read_whole(const std::function<Group(const LayoutSink&)>& read, size_t expected_features, size_t expected_codes) {
  std::vector<float> features;
  std::vector<uint8_t> codes;
  features.reserve(expected_features);
  codes.reserve(expected_codes);
  const auto append = [](auto& all, auto piece) { all.insert(all.end(), piece.begin(), piece.end()); };
  Group group = read({[&](std::span<const float> rows, int64_t) { append(features, rows); },
                      [&](std::span<const uint8_t> candidates, int64_t) { append(codes, candidates); }});
  group.graphs.node_features = std::move(features);
  group.layout.codes = std::move(codes);
  return group;
}

}  // namespace foretime::data
