#include "inference/scoring/layout_codes.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace foretime::inference {
namespace {

constexpr size_t kRow = data::kLayoutFeatures;
constexpr size_t kMostRows = 256;
constexpr size_t kSlots = 1024;  // a power of two, so that a full table is a quarter full

uint64_t hash_of(const int8_t* row) {
  static_assert(kRow == 18);
  uint64_t a = 0, b = 0;
  uint16_t c = 0;
  std::memcpy(&a, row, 8);
  std::memcpy(&b, row + 8, 8);
  std::memcpy(&c, row + 16, 2);
  const uint64_t hash = (a ^ std::rotl(b, 29) ^ c * 0xD6E8FEB86659FD93U) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 32;
}

/// The distinct rows of one node.
struct Table {
  std::vector<int8_t> rows;
  std::array<uint16_t, kSlots> slots{};  // code + 1; 0: free
  uint8_t last = 0;                      // code of the row before
  int64_t newest = -1;                   // the candidate that brought the last of the rows

  size_t count() const { return rows.size() / kRow; }
  bool has(size_t code, const int8_t* row) const { return std::memcmp(rows.data() + code * kRow, row, kRow) == 0; }

  /// False where the table is full.
  bool code(const int8_t* row, int64_t candidate, uint8_t& code) {
    if (!rows.empty() && has(last, row)) {
      code = last;
      return true;
    }
    size_t slot = hash_of(row) % kSlots;
    for (; slots[slot] != 0; slot = (slot + 1) % kSlots) {
      if (has(slots[slot] - 1U, row)) {
        code = last = static_cast<uint8_t>(slots[slot] - 1U);
        return true;
      }
    }
    if (count() == kMostRows) return false;
    code = last = static_cast<uint8_t>(count());
    rows.insert(rows.end(), row, row + kRow);
    slots[slot] = static_cast<uint16_t>(code + 1U);
    newest = candidate;
    return true;
  }

  /// Forgets the row that `candidate` brought, if it did. No more rows can be coded then.
  void take_back(int64_t candidate) {
    if (newest == candidate) rows.resize(rows.size() - kRow);
  }
};

/// Codes of the candidates that fit: all, or those before the one for which the table of node `full` is full, and whose
/// rows are not kept.
std::vector<uint8_t> code_rows(std::vector<Table>& tables, std::span<const int8_t> layouts, int64_t candidates,
                               int64_t& full) {
  std::vector<uint8_t> codes;
  const int8_t* row = layouts.data();
  for (int64_t c = 0; c < candidates; ++c) {
    const size_t first = codes.size();
    codes.resize(first + tables.size());
    for (size_t j = 0; j < tables.size(); ++j, row += kRow) {
      if (tables[j].code(row, c, codes[first + j])) continue;
      for (size_t k = 0; k < j; ++k) tables[k].take_back(c);
      codes.resize(first);
      full = static_cast<int64_t>(j);
      return codes;
    }
  }
  return codes;
}

}  // namespace

CodedLayouts code_layouts(Array<int32_t> nodes, std::span<const int8_t> layouts, int64_t candidates) {
  std::vector<Table> tables(static_cast<size_t>(nodes.size()));
  CodedLayouts result;
  auto codes = code_rows(tables, layouts, candidates, result.full);
  result.candidates = result.full < 0 ? candidates : static_cast<int64_t>(codes.size()) / nodes.size();
  std::vector<int64_t> row_ptr = {0};
  std::vector<int8_t> rows;
  for (const Table& table : tables) {
    rows.insert(rows.end(), table.rows.begin(), table.rows.end());
    row_ptr.push_back(row_ptr.back() + static_cast<int64_t>(table.count()));
  }
  result.layout.nodes = std::move(nodes);
  result.layout.row_ptr = std::move(row_ptr);
  result.layout.rows = std::move(rows);
  result.layout.codes = std::move(codes);
  return result;
}

}  // namespace foretime::inference
