#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/frontends/hlo/wire_reader.h"
#include "data/graphs/group.h"

namespace foretime::data {

/// Where the parts of a ModuleTuningData lie (tuning.proto).
struct TuningOutline {
  std::vector<std::string_view> module;  // its HloModuleProto, in one piece in practice
  std::vector<std::string_view> runs;    // ConfigProfile
  std::vector<int64_t> layout_nodes;     // config_index_to_node: positions of nodes, not ids
  uint64_t fingerprint = 0;
};

/// Throws DataError for damaged protobuf.
TuningOutline outline_tuning(const HloSource& source, std::string_view module_tuning_data);

/// The runs that are candidates: where any run was measured, those that were; else all that did not fail, without
/// labels. A run was measured if it is not marked as an error and its profile has a time above 0; for tiles above
/// 1 ns, as in TpuGraphs.
struct TuningCandidates {
  CandidateKind kind = CandidateKind::layout;
  std::vector<std::string_view> runs;  // [candidates]
  std::vector<int64_t> runtimes;       // [candidates] nanoseconds; 0 without labels
  int64_t default_runtime = 0;         // of the first candidate that is marked as the default; 0 where none is
  int64_t left_out = 0;                // runs that are no candidates
};

/// Looks at what runs say of themselves, not at their configurations. Throws DataError for damaged protobuf, for runs
/// without a configuration, and where some configurations are tiles and others layouts.
TuningCandidates choose_candidates(const HloSource& source, const TuningOutline& tuning);

/// The 24 tile features of a run (TileSizeConfig: kernel, output and input bounds; products of empty lists are 0).
/// Throws DataError.
void read_tile_features(const HloSource& source, std::string_view run, float* features);

/// The 18 layout features of each of `nodes` nodes, in the order of config_index_to_node: output, input and kernel
/// layout with 6 dimensions each, -1 where there is none. Throws DataError where a run has another number of nodes, or
/// a node more than 3 tensors.
void read_layout_features(const HloSource& source, std::string_view run, int64_t nodes, float* features);

}  // namespace foretime::data
