#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/graphs/group.h"
#include "data/graphs/layout_coder.h"

namespace foretime::data {

/// Sets the size of a synthetic layout graph.
struct SynthSettings {
  int64_t nodes = 1000;
  int64_t configurable = 50;  // configurable nodes; not more than nodes
  int64_t candidates = 1000;
  uint64_t seed = 1;
};

/// Makes a layout group with TpuGraphs' shape: nodes in topological order, 140 features, opcodes below 120, at most 9
/// distinct layout rows at each configurable node. Run times can be learned: they sum a cost of each configurable node
/// that depends on its opcode, size and layout, a cost of each edge between configurable nodes of different layouts,
/// and 1 % of noise. About one candidate in 50 repeats an earlier one. A pure function of its arguments, equal on every
/// machine except for rounding of run times. Throws DataError for impossible sizes.
Group synthesize_layout_group(const SynthSettings& settings, const std::string& name);
/// Makes a layout group and passes its features and codes to `sink`: memory does not grow with the candidates.
Group synthesize_layout_group(const SynthSettings& settings, const std::string& name, const LayoutSink& sink);

/// Writes a synthetic group to `file`, an .npz or a packed collection, by its extension. Both are streamed: memory
/// grows with the nodes, and by a few bytes with each candidate. The file's name must start with kSyntheticPrefix, so
/// that nobody takes it for measurements. Throws DataError.
void write_synthetic(const std::filesystem::path& file, const SynthSettings& settings);

}  // namespace foretime::data
