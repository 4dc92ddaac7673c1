#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "data/frontends/hlo/hlo_file.h"
#include "data/graphs/group.h"
#include "data/graphs/layout_coder.h"

namespace foretime::data {

/// Limits the size of a module. A node takes some 600 bytes of memory for its features, but as little as ten bytes of a
/// file, so that a small file could exhaust memory.
struct HloLimits {
  int64_t nodes = 500'000;  // the largest of TpuGraphs has 43,615
  int64_t edges = std::numeric_limits<int32_t>::max();
};

/// Holds the graph of an HloModuleProto in TpuGraphs' form: a node for each instruction of each computation in the
/// order of the file, which has operands before their users and callees before their callers; an edge from each
/// distinct operand and from the root of each called computation.
struct HloGraph {
  std::string name;                   // name of the module
  GraphBlock graph;                   // no node features; edges sorted by consumer, then by producer
  std::vector<int64_t> node_splits;   // 0, the ends of computations named *cluster*, *while* or *cond*, the last node
  std::vector<int32_t> layout_nodes;  // convolutions, dots and reshapes
  std::vector<std::pair<std::string, int64_t>> unknown_opcodes;  // names and numbers of nodes with type 0
};

/// Reads a module whose bytes are `pieces` of `source` in sequence (protobuf allows a message to be split; in practice
/// there is one piece). Passes node features to `features` in pieces of whole rows; without it they are not computed.
/// Parses one instruction at a time, so that additional memory is a few dozen bytes for each node.
///
/// Throws DataError, with the names of computation and instruction, for:
/// - damaged protobuf
/// - repeated or missing ids, and operands of other computations
/// - operands that do not precede their users, and callees that do not precede their callers, so that there are no
///   cycles
/// - computations without root, instructions without opcode
/// - modules without instructions or above the limits
/// - features that cannot be computed (node_features.h)
HloGraph read_module_graph(const HloSource& source, std::span<const std::string_view> pieces, const HloLimits& limits,
                           const FeatureSink& features = {});

/// Locates the computations and instructions of a module, with their ids but not their contents.
struct ModuleOutline {
  struct Instruction {
    std::string_view bytes;
    int64_t id = 0;
  };
  struct Computation {
    std::string_view name;
    int64_t id = 0, root_id = 0;
    int64_t first = 0, last = 0;  // instructions first … last - 1
    int64_t root = 0;             // index of the root
  };
  std::string_view name;
  std::vector<Computation> computations;
  std::vector<Instruction> instructions;  // instructions of all computations

  /// Returns the index of an instruction or of a computation by id; -1 if there is none.
  int64_t find_instruction(int64_t id) const;
  int64_t find_computation(int64_t id) const;

  std::vector<std::pair<int64_t, int64_t>> instructions_by_id, computations_by_id;  // (id, position), ascending
};

/// Locates the computations and instructions of a module. Throws DataError for damaged protobuf, modules without
/// instructions or above the limit, repeated ids, and computations without instructions or root.
ModuleOutline outline_module(const HloSource& source, std::span<const std::string_view> pieces,
                             const HloLimits& limits);

}  // namespace foretime::data
