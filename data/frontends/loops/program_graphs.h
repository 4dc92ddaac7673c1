#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "configs/settings.h"
#include "data/frontends/loops/hardware.h"
#include "data/frontends/loops/loop_program.h"
#include "data/graphs/group.h"

namespace foretime::data {

/// Graphs of programs side by side, of one of several representations.
class ProgramGraphs {
 public:
  virtual ~ProgramGraphs() = default;
  /// `operations`: what the program computes, in arithmetic operations; 0 where unknown. Throws DataError where the
  /// block would be too large.
  virtual void add(const LoopProgram& program, double operations) = 0;
  /// The block; the object is empty then.
  virtual GraphBlock finish() = 0;
};

/// Node features of a form of graphs, by data.representation: 0 for what is none of loops and curve.
int64_t program_columns(configs::Representation representation);
/// Null for what is none of them.
std::unique_ptr<ProgramGraphs> make_program_graphs(configs::Representation representation, const Hardware& hardware);

}  // namespace foretime::data
