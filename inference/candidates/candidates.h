#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "data/graphs/group.h"
#include "inference/candidates/node_names.h"

namespace foretime::inference {

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

}  // namespace foretime::inference
