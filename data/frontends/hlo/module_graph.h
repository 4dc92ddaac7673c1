#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "data/frontends/hlo/wire_reader.h"
#include "data/graphs/group.h"
#include "data/graphs/layout_sink.h"

namespace foretime::data {

/// What a module may have at most. A node takes some 600 bytes of memory once it is read (its features), and as little
/// as ten bytes of a file, so that a small file could ask for much.
struct HloLimits {
  int64_t nodes = 500'000;  // the largest of TpuGraphs has 43,615
  int64_t edges = std::numeric_limits<int32_t>::max();
};

/// The graph of an HloModuleProto as TpuGraphs has it: a node for each instruction of each computation in the order of
/// the file, which has operands before their users and callees before their callers; an edge from each distinct operand
/// and from the root of each computation that it calls.
struct HloGraph {
  std::string name;                   // of the module
  GraphBlock graph;                   // without node features; edges by consumer, then by producer
  std::vector<int64_t> node_splits;   // 0, the ends of computations named *cluster*, *while* or *cond*, the last node
  std::vector<int32_t> layout_nodes;  // convolutions, dots and reshapes
  std::vector<std::pair<std::string, int64_t>> unknown_opcodes;  // of nodes with type 0, and how many have each
};

/// Reads a module, whose bytes are `pieces` of `source` one after another (protobuf allows to split a message; there
/// is one in practice). Node features go to `features` in pieces of whole rows; without a sink they are not made.
/// Instructions are parsed one at a time, so memory beside the result stays at a few dozen bytes a node.
///
/// Throws DataError, with the names of computation and instruction, for damaged protobuf; ids that are given twice or
/// are not there; operands of other computations; operands that do not come before their users, and callees that do not
/// come before their callers, so that nothing is a cycle; computations without their root; instructions without opcode;
/// modules without instructions or past the limits; features that cannot be computed (node_features.h).
HloGraph read_module_graph(const HloSource& source, std::span<const std::string_view> pieces, const HloLimits& limits,
                           const FeatureSink& features = {});

}  // namespace foretime::data
