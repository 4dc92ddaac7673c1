#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json_reader.h"
#include "data/frontends/hlo/hlo_file.h"
#include "data/graphs/group.h"

namespace foretime::data {

/// Finds the nodes of a graph by the names of their instructions.
class NodeNames {
 public:
  NodeNames() = default;  // no node has a name
  NodeNames(NodeNames&&) = default;
  NodeNames& operator=(NodeNames&&) = default;
  /// Takes the names of the file's only module. Throws DataError for damaged protobuf, and if the file has several
  /// modules.
  explicit NodeNames(const HloFile& file);

  static constexpr int32_t kNone = -1, kAmbiguous = -2;
  /// Returns the node of this name, with or without the % of HLO's text; kNone, or kAmbiguous if several have it.
  int32_t find(std::string_view name) const;
  /// Returns the name of a node; "" if it has none.
  std::string_view of(int32_t node) const {
    return node >= 0 && node < std::ssize(names_) ? std::string_view(names_[node]) : "";
  }
  bool empty() const { return nodes_.empty(); }

 private:
  std::vector<std::string> names_;                       // [nodes]
  std::unordered_map<std::string_view, int32_t> nodes_;  // key: name, a view of `names_`
};

/// Holds configurations of one graph that are to be ranked.
struct Candidates {
  int64_t count = 0;
  std::vector<std::string> ids;  // [count], "" for a candidate without id; empty if all have none
  std::vector<int8_t> layouts;   // [count, configurable, 18], kind layout
  std::vector<float> tiles;      // [count, 24], kind tile
};

/// Describes the candidates of one graph.
struct CandidateSchema {
  CandidateKind kind = CandidateKind::layout;
  std::span<const int32_t> configurable = {};  // kind layout: the nodes that have layouts, ascending
  const NodeNames* names = nullptr;            // allows naming nodes by their instructions; may be null
  int64_t most = 10'000'000;                   // largest number of candidates

  /// Returns the number of values of one candidate.
  int64_t row() const;
};

/// Reads a list of candidates in the format of docs/how-to/rank-xla-layouts.md, [{"id": …, "layouts": {…}}, …] or
/// [{"id": …, "config": …}, …]. Nodes without an entry have an unknown layout: 18 times -1. Throws DataError, naming
/// candidate, node and the expected value.
Candidates read_candidates(JsonReader& reader, const simdjson::dom::element& list, const CandidateSchema& schema);

/// Reads the candidates of a file:
/// - JSON, {"candidates": […]} with the list of read_candidates;
/// - .npz in TpuGraphs' schema: node_config_feat (candidates, configurable, 18), optionally with node_config_ids, the
/// configurable nodes in ascending order, or config_feat (candidates, 24).
/// Throws DataError with file, field, found and expected value.
Candidates read_candidates_file(const std::filesystem::path& file, const CandidateSchema& schema);

}  // namespace foretime::data
