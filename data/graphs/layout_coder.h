#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Encodes the layout rows of each configurable node as one-byte codes, in the order in which distinct rows first
/// appear. Holds only the tables, so that its memory does not grow with the candidates.
///
/// The fast path compares bytes: a row that is bit for bit equal to an earlier row of its node needs no conversion.
/// Nearly all rows of real files take it: a node has tens of distinct rows, a file tens of thousands of candidates.
class LayoutCoder {
 public:
  using Row = std::array<int8_t, kLayoutFeatures>;

  /// Starts with empty tables. `origin` is the prefix of messages, which identify nodes by `nodes`.
  LayoutCoder(std::vector<int32_t> nodes, std::string origin);

  /// Encodes the next candidate's rows, [configurable, 18], into `codes`, [configurable]. Throws DataError with
  /// candidate and node if a value is not a whole number from -128 to 127, or for a node's 257th distinct row.
  void add_candidate(const float* rows, uint8_t* codes);
  void add_candidate(const double* rows, uint8_t* codes);
  /// Returns nodes and tables without the codes, which the caller has, and ends the coder. Throws DataError unless
  /// `candidates` candidates were encoded.
  LayoutCandidates finish(int64_t candidates) &&;

 private:
  struct RawRow {
    std::array<uint64_t, 9> words;
    uint64_t hash = 0;
    uint8_t code = 0;
  };
  struct Table {
    std::vector<Row> rows;
    std::vector<RawRow> raw;      // encodings seen so far; -0.0 and 0.0 make several for one row
    std::vector<uint16_t> slots;  // open addressing into raw, position + 1; 0: free
    uint16_t last = 0;            // position in raw of the previous row
  };
  template <class T>
  Row whole_numbers(const T* row, size_t node) const;
  uint8_t code_of(Table& table, const Row& row, size_t node);
  uint8_t code_of_raw(Table& table, const float* row, size_t node);
  /// Adds a row to the lookup table of raw rows.
  void remember(Table& table, const RawRow& raw);

  std::vector<int32_t> nodes_;
  std::string origin_;
  std::vector<Table> tables_;
  int64_t candidate_ = 0;
};

/// Receives node features as whole rows of `columns` values each, in the order of the nodes.
using FeatureSink = std::function<void(std::span<const float> rows, int64_t columns)>;

/// Receives the two arrays of a layout group that may be too large for memory, in pieces and in order: first all
/// features, then all codes. A piece is valid only during the call.
struct LayoutSink {
  FeatureSink node_features;
  /// Receives the codes of whole candidates, [configurable] each.
  std::function<void(std::span<const uint8_t> candidates, int64_t configurable)> codes;
};

/// Returns a group that `read` passes to a sink, with both arrays in memory. `features` and `codes` are the expected
/// numbers of elements.
Group read_whole(const std::function<Group(const LayoutSink& sink)>& read, size_t features = 0, size_t codes = 0);

}  // namespace foretime::data
