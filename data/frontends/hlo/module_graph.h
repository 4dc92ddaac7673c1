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
  int64_t nodes = 500'000;  // largest number of instructions; TpuGraphs' modules have up to 43,615
  int64_t edges = std::numeric_limits<int32_t>::max();  // largest number of edges
};

/// Holds the graph of an HloModuleProto in TpuGraphs' form: a node for each instruction of each computation in the
/// order of the file, which has operands before their users and callees before their callers; an edge to each
/// instruction from each of its distinct operands and from the root of each computation that it calls.
struct HloGraph {
  std::string name;                   // name of the module
  GraphBlock graph;                   // no node features; edges sorted by consumer, then by producer
  std::vector<int64_t> node_splits;   // 0, the ends of computations named *cluster*, *while* or *cond*, number of nodes
  std::vector<int32_t> layout_nodes;  // nodes that are convolutions, dots or reshapes, ascending
};

/// Reads a module whose bytes are `pieces` of `source` in sequence (protobuf allows a message to be split; in practice
/// there is one piece). Passes the node features to `features`, at most 1,024 whole rows at a time; an empty `features`
/// means that they are not computed. Needs a few dozen bytes of additional memory for each node.
///
/// Throws DataError, with the names of computation and instruction where the error is in one, for:
/// - damaged protobuf
/// - repeated or missing ids, and operands of other computations
/// - operands that do not precede their users, and callees that do not precede their callers, so also cycles
/// - computations without root, instructions without opcode or with more than 4 MiB of relevant fields
/// - modules without instructions or above the limits
/// - features that cannot be computed (node_features.h)
HloGraph read_module_graph(const HloSource& source, std::span<const std::string_view> pieces, const HloLimits& limits,
                           const FeatureSink& features = {});

/// Holds the places and ids of the computations and instructions of a module.
struct ModuleOutline {
  struct Instruction {
    std::string_view bytes;  // encoded HloInstructionProto
    int64_t id = 0;
  };
  struct Computation {
    std::string_view name;
    int64_t id = 0, root_id = 0;  // id of the computation, and of its root instruction
    int64_t first = 0, last = 0;  // the computation's instructions are first … last - 1 of ModuleOutline::instructions
    int64_t root = 0;             // index of the root in ModuleOutline::instructions
  };
  std::string_view name;
  std::vector<Computation> computations;
  std::vector<Instruction> instructions;  // instructions of all computations, in the order of the file

  /// Returns the index in `instructions` of the instruction with this id; -1 if there is none.
  int64_t find_instruction(int64_t id) const;
  /// Returns the index in `computations` of the computation with this id; -1 if there is none.
  int64_t find_computation(int64_t id) const;

  std::vector<std::pair<int64_t, int64_t>> instructions_by_id, computations_by_id;  // (id, index), ascending
};

/// Locates the computations and instructions of a module; `source` and `pieces` are those of read_module_graph. Throws
/// DataError for damaged protobuf, repeated ids, missing roots, no computations, a computation without instructions,
/// and above limits.nodes instructions.
ModuleOutline outline_module(const HloSource& source, std::span<const std::string_view> pieces,
                             const HloLimits& limits);

}  // namespace foretime::data
