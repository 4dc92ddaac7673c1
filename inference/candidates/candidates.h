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

namespace foretime::inference {

/// The nodes of a graph by the names of their instructions.
class NodeNames {
 public:
  NodeNames() = default;  // no node has a name
  NodeNames(NodeNames&&) = default;
  NodeNames& operator=(NodeNames&&) = default;
  /// Of the file's only module. Throws DataError for damaged protobuf, and where the file has several modules.
  explicit NodeNames(const data::HloFile& file);

  static constexpr int32_t kNone = -1, kAmbiguous = -2;
  /// The node of this name, with or without the % of HLO's text; kNone, or kAmbiguous where several have it.
  int32_t find(std::string_view name) const;
  /// "" where a node has none.
  std::string_view of(int32_t node) const {
    return static_cast<size_t>(node) < names_.size() ? std::string_view(names_[static_cast<size_t>(node)]) : "";
  }
  bool empty() const { return nodes_.empty(); }

 private:
  std::vector<std::string> names_;                       // of each node
  std::unordered_map<std::string_view, int32_t> nodes_;  // by their names, which names_ holds
};

/// Configurations of one graph that somebody wants ranked.
struct Candidates {
  int64_t count = 0;
  std::vector<std::string> ids;  // [count], "" where one has none; empty where none has
  std::vector<int8_t> layouts;   // [count, configurable, 18], kind layout
  std::vector<float> tiles;      // [count, 24], kind tile
};

/// What candidates are of.
struct CandidateSchema {
  data::CandidateKind kind = data::CandidateKind::layout;
  std::span<const int32_t> configurable = {};  // kind layout: the nodes that have layouts, ascending
  const NodeNames* names = nullptr;            // where nodes may be named by their instructions
  int64_t most = 10'000'000;                   // candidates

  int64_t row() const;  // numbers of one candidate
};

/// Reads a list of candidates as docs/how-to/rank-xla-layouts.md describes it, [{"id": …, "layouts": {…}}, …] or
/// [{"id": …, "config": …}, …]. Nodes that a candidate does not name have 18 times -1: nothing is said of them. Throws
/// DataError, naming candidate, node and what was expected.
Candidates read_candidates(JsonReader& reader, const simdjson::dom::element& list, const CandidateSchema& schema);

/// The candidates of a file:
/// - JSON, {"candidates": […]} as read_candidates takes it;
/// - .npz in TpuGraphs' schema: node_config_feat (candidates, configurable, 18), with node_config_ids the configurable
///   nodes in ascending order, if it has them, or config_feat (candidates, 24).
/// Throws DataError with file, field, what was found and what was expected.
Candidates read_candidates_file(const std::filesystem::path& file, const CandidateSchema& schema);

}  // namespace foretime::inference
