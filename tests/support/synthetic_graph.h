#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/graphs/group.h"
#include "data/graphs/layout_coder.h"

namespace foretime::testing {

/// Sets the size of a synthetic layout graph.
struct SynthSettings {
  int64_t nodes = 1000;
  int64_t configurable = 50;  // number of configurable nodes
  int64_t candidates = 1000;
  uint64_t seed = 1;
};

/// Makes a layout group `name` with TpuGraphs' shape: nodes in topological order, 140 features, opcodes below 120, at
/// most 9 distinct layout rows at each configurable node. Run times, in nanoseconds, can be learned. They sum 1,000 ns
/// for each node, a cost of each configurable node by its opcode, size and layout, and a cost of each edge between
/// configurable nodes whose output layouts differ in the first dimension; then 1 % of noise is applied. About one
/// candidate in 50 repeats the layouts of an earlier one. A pure function of its arguments, equal on every machine
/// except for rounding of run times. Throws DataError unless there are 2 or more nodes, 1 to `nodes` configurable nodes
/// and 1 or more candidates, at most 2^31 - 1 of each.
data::Group synthesize_layout_group(const SynthSettings& settings, const std::string& name);
/// Makes the same group, but passes its node features and codes to `sink` and returns the group without them, so that
/// memory grows by only a few bytes with each candidate.
data::Group synthesize_layout_group(const SynthSettings& settings, const std::string& name,
                                    const data::LayoutSink& sink);

/// Writes a synthetic group, named like the file, to an .npz or a packed collection (.foretime), by the extension.
/// Memory grows with the nodes, and by a few bytes with each candidate. Throws DataError for another extension and
/// impossible sizes, and FileError if writing fails.
void write_synthetic(const std::filesystem::path& file, const SynthSettings& settings);

}  // namespace foretime::testing
