#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/graphs/group.h"
#include "data/graphs/layout_coder.h"

namespace foretime::data {

/// The size of a made-up layout graph.
struct SynthSettings {
  int64_t nodes = 1000;
  int64_t configurable = 50;  // at most nodes
  int64_t candidates = 1000;
  uint64_t seed = 1;
};

/// A layout group of TpuGraphs' shape: nodes in topological order, 140 features, opcodes below 120, at most 9 distinct
/// layout rows a configurable node. Run times are made up as well, so that there is something to learn: a cost of each
/// configurable node that depends on its opcode, its size and its layout, a cost for each edge between configurable
/// nodes of different layouts, and 1 % of noise. About one candidate in 50 repeats an earlier one. A pure function of
/// the settings, the same on every machine up to rounding of the run times. Throws DataError for sizes that are not
/// possible.
Group synthesize_layout_group(const SynthSettings& settings, const std::string& name);
/// Makes a layout group whose features and codes go to `sink`: memory does not grow with the candidates.
Group synthesize_layout_group(const SynthSettings& settings, const std::string& name, const LayoutSink& sink);

/// Writes such a group to `file`, an .npz or a packed collection, by its extension. Both are streamed: memory grows
/// with the nodes, and by a few bytes with each candidate. The file's name must start with kSyntheticPrefix, so that
/// nobody takes it for measurements. Throws DataError.
void write_synthetic(const std::filesystem::path& file, const SynthSettings& settings);

}  // namespace foretime::data
