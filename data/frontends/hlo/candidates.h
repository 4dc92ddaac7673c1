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
  /// Reads the names of the instructions of the file's only module. Throws DataError for several or damaged ones.
  explicit NodeNames(const HloFile& file);

  static constexpr int32_t kNone = -1, kAmbiguous = -2;  // no node, or several nodes, have the name
  /// Returns the node with this name, with or without the % of HLO's text; kNone for no node, kAmbiguous for several.
  int32_t find(std::string_view name) const;
  /// Returns the name of a node's instruction; "" if it has none or there is no such node.
  std::string_view of(int32_t node) const {
    return node >= 0 && node < std::ssize(names_) ? std::string_view(names_[node]) : "";
  }
  bool empty() const { return nodes_.empty(); }  // no node has a name

 private:
  std::vector<std::string> names_;                       // [nodes] "" for an instruction without a name
  std::unordered_map<std::string_view, int32_t> nodes_;  // key: name, a view of `names_`; value: node or kAmbiguous
};

/// Holds the configurations of one graph that are to be ranked.
struct Candidates {
  int64_t count = 0;
  std::vector<std::string> ids;  // [count], "" for a candidate without id; empty if no candidate has an id
  std::vector<int8_t> layouts;   // [count, configurable nodes, 18] for kind layout, else empty
  std::vector<float> tiles;      // [count, 24] for kind tile, else empty
};

/// Describes which candidates of one graph are accepted.
struct CandidateSchema {
  CandidateKind kind = CandidateKind::layout;
  std::span<const int32_t> configurable = {};  // kind layout: the nodes that have layouts, ascending
  const NodeNames* names = nullptr;            // allows naming nodes by their instructions; may be null
  int64_t most = 10'000'000;                   // largest number of candidates

  /// Returns the number of values of one candidate: 18 for each configurable node, or 24 for kind tile.
  int64_t row() const;
};

/// Reads a list of candidates in the format of docs/how-to/rank-xla-layouts.md, [{"id": …, "layouts": {…}}, …] or
/// [{"id": …, "config": …}, …]. Layout values that are not given are -1, also all 18 of a node without an entry;
/// tile bounds are then 0. Throws DataError, naming candidate, node and the expected value, also for no candidates and
/// more than schema.most.
Candidates read_candidates(JsonReader& reader, const simdjson::dom::element& list, const CandidateSchema& schema);

/// Reads the candidates of a file:
/// - JSON, {"candidates": […]} with the list of read_candidates;
/// - .npz in TpuGraphs' schema: node_config_feat (candidates, configurable, 18), optionally with node_config_ids, the
/// configurable nodes in ascending order, or config_feat (candidates, 24).
/// The file's extension decides which; an .npz has no ids. Throws DataError with file, field, found and expected value,
/// also for other extensions, no candidates and more than schema.most; StorageError if the storage fails.
Candidates read_candidates_file(const std::filesystem::path& file, const CandidateSchema& schema);

}  // namespace foretime::data
