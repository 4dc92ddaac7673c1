#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/frontends/hlo/module_graph.h"
#include "data/frontends/hlo/wire_reader.h"

namespace foretime::data {

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
