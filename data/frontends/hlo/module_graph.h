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

/// Where the computations and instructions of a module lie, and their ids, without what is in them.
struct ModuleOutline {
  struct Instruction {
    std::string_view bytes;
    int64_t id = 0;
  };
  struct Computation {
    std::string_view name;
    int64_t id = 0, root_id = 0;
    int64_t first = 0, last = 0;  // instructions first … last - 1
    int64_t root = 0;             // position of the root
  };
  std::string_view name;
  std::vector<Computation> computations;
  std::vector<Instruction> instructions;  // of all computations

  /// Positions of an instruction or of a computation by id; -1 where there is none.
  int64_t find_instruction(int64_t id) const;
  int64_t find_computation(int64_t id) const;

  std::vector<std::pair<int64_t, int64_t>> instructions_by_id, computations_by_id;  // (id, position), ascending
};

/// Throws DataError for damaged protobuf, modules without instructions or past the limit, ids that are given twice,
/// computations without instructions or without their root.
ModuleOutline outline_module(const HloSource& source, std::span<const std::string_view> pieces,
                             const HloLimits& limits);

}  // namespace foretime::data
