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
/// appear. Holds only the tables of distinct rows, so that memory does not grow with the candidates.
class LayoutCoder {
 public:
  using Row = std::array<int8_t, kLayoutFeatures>;

  /// Starts with empty tables. `nodes`, [configurable], are node ids. `origin` is the prefix of messages.
  LayoutCoder(std::vector<int32_t> nodes, std::string origin);

  /// Encodes the next candidate's rows, [configurable, 18], into `codes`, [configurable]. Throws DataError with
  /// candidate and node if a value is not a whole number from -128 to 127, or for a node's 257th distinct row.
  void add_candidate(const float* rows, uint8_t* codes);
  /// Encodes the next candidate's rows as the function above does.
  void add_candidate(const double* rows, uint8_t* codes);
  /// Returns nodes and tables; `codes` is empty, since add_candidate has returned the codes. The last call of an
  /// object. Throws DataError unless `candidates` candidates were encoded.
  LayoutCandidates finish(int64_t candidates) &&;

 private:
  struct RawRow {
    std::array<uint64_t, 9> words;  // the bytes of a row of 18 floats
    uint64_t hash = 0;
    uint8_t code = 0;
  };
  struct Table {
    std::vector<Row> rows;
    std::vector<RawRow> raw;      // bit patterns of known rows; -0.0 and 0.0 make several of one row
    std::vector<uint16_t> slots;  // open addressing into raw, position + 1; 0: free
    uint16_t last = 0;            // position in raw of the previous row
  };
  /// Converts a row of configurable node `node`. Throws DataError for a value that is no whole number of 8 bits.
  template <class T>
  Row whole_numbers(const T* row, size_t node) const;
  /// Returns the code of a row, which is added to the table if it is new. Throws DataError if the table is full.
  uint8_t code_of(Table& table, const Row& row, size_t node);
  /// Returns the code of a row of floats; a row with the bit pattern of an earlier one needs no conversion.
  uint8_t code_of_raw(Table& table, const float* row, size_t node);
  /// Adds a row to the lookup table of bit patterns.
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

/// Calls `read` with a sink, and returns its group with the node features and codes that the sink received. `features`
/// and `codes` are their expected numbers of elements, for which memory is reserved.
Group read_whole(const std::function<Group(const LayoutSink& sink)>& read, size_t features = 0, size_t codes = 0);

}  // namespace foretime::data
