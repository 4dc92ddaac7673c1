#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Turns the layout rows of each configurable node into one-byte codes, in the order in which distinct rows first
/// appear. It holds the tables and no codes, so its memory does not grow with the candidates.
///
/// The fast path compares bytes: a row that is bit for bit one seen before at its node needs no conversion, which holds
/// for nearly all rows of real files (a node has tens of distinct rows, a file tens of thousands of candidates).
class LayoutCoder {
 public:
  using Row = std::array<int8_t, kLayoutFeatures>;

  /// `origin` starts messages, which name nodes by `nodes`.
  LayoutCoder(std::vector<int32_t> nodes, std::string origin);

  /// Codes the next candidate's rows, [configurable, 18], into `codes`, [configurable]. Throws DataError, naming
  /// candidate and node, for values that are not whole numbers from -128 to 127, and for a node's 257th distinct row.
  void add_candidate(const float* rows, uint8_t* codes);
  void add_candidate(const double* rows, uint8_t* codes);
  /// Nodes and tables without the codes, which the caller has; ends the coder. Throws DataError unless `candidates`
  /// candidates were coded.
  LayoutCandidates finish(int64_t candidates) &&;

 private:
  struct RawRow {
    std::array<uint64_t, 9> words;
    uint64_t hash = 0;
    uint8_t code = 0;
  };
  struct Table {
    std::vector<Row> rows;
    std::vector<RawRow> raw;      // encodings seen; -0.0 and 0.0 make several for one row
    std::vector<uint16_t> slots;  // open addressing into raw, position + 1; 0: free
    uint16_t last = 0;            // position in raw of the row before
  };
  template <class T>
  Row whole_numbers(const T* row, size_t node) const;
  uint8_t code_of(Table& table, const Row& row, size_t node);
  uint8_t code_of_raw(Table& table, const float* row, size_t node);
  void remember(Table& table, const RawRow& raw);

  std::vector<int32_t> nodes_;
  std::string origin_;
  std::vector<Table> tables_;
  int64_t candidate_ = 0;
};

/// Takes node features in pieces of whole rows of so many columns, in the order of the nodes.
using FeatureSink = std::function<void(std::span<const float> rows, int64_t columns)>;

/// Where the two arrays of a layout group go that may be too large for memory, each in pieces and in its order: first
/// all features, then all codes. A piece is gone when the call returns.
struct LayoutSink {
  FeatureSink node_features;
  /// Whole candidates, [configurable] each.
  std::function<void(std::span<const uint8_t> candidates, int64_t configurable)> codes;
};

/// A group that `read` gives to a sink, with both arrays in memory; so many elements of each are expected.
Group read_whole(const std::function<Group(const LayoutSink& sink)>& read, size_t features = 0, size_t codes = 0);

}  // namespace foretime::data
