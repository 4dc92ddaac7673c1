#pragma once

#include <cstdint>
#include <memory>

#include "configs/settings.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/loop_program.h"
#include "data/graphs/group.h"
#include "data/graphs/program_nodes.h"

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
/// Makes graphs of a representation; null for what is none of them.
///
/// `curve`: each program is one node of type PrimFunc without edges, what a predictor on fixed vectors reads.
///
/// `loops`: for each statement, in order, a node of type BufferStore; then For nodes, its loops from
/// the innermost outwards; BufferLoad nodes, its accesses, the store first; and nodes of types Add, Mul, Div, Max,
/// Select, Call, Cast for what it computes, with LoopColumns as features. Edges (source, target):
///   a loop, an access, an operation → its statement       what belongs to it
///   a loop → the loop around it                           order of loops
///   an access → the statement's loops that move through it
///   a statement → the access that reads what it wrote     data flow
///   a statement → the next one                            order of statements
/// Every node of a statement stands behind it and before the next statement.
/// `columns`: how many of the node features, from the first on: of loops LoopColumns::kWithoutMachine, or 0: all.
std::unique_ptr<ProgramGraphs> make_program_graphs(configs::Representation representation, const Hardware& hardware,
                                                   int64_t columns = 0);

/// Columns of the one node of a program in the form `curve`: context relation features (Chen et al., Learning to
/// Optimize Tensor Programs, arXiv 1805.08166, section 3.2 and appendix). An access has at each loop level of its
/// statement three context features: how many elements it touches from there on (Z_touch), how often each of them
/// (Z_reuse), and how often the level runs (Z_top, the product of the loops outside). A curve is the maximum of one of
/// them over the levels where another is at most a threshold; thresholds are powers of 4. Of the kStatements statements
/// with most iterations, and in each of the store and the two loads of the largest buffers:
///   reuse over touch   how much reuse a cache of so many elements sees
///   iterations over touch   the work of the largest inner loop nest that touches so many elements
///   top over reuse     how often loops run that have no more reuse
/// All values are log2(1 + x).
struct CurveColumns {
  static constexpr int64_t kStatements = 2, kAccesses = 3, kCurves = 3, kThresholds = 12;
  static constexpr int64_t count = kStatements * kAccesses * kCurves * kThresholds;

  static constexpr int64_t column(int64_t statement, int64_t access, int64_t curve, int64_t threshold) {
    return ((statement * kAccesses + access) * kCurves + curve) * kThresholds + threshold;
  }
};

Hardware hardware_of(const configs::HardwareSettings& settings);

/// The featurizer of a representation: null for ast. `columns`: as of make_program_graphs.
FeaturizerPtr make_featurizer(configs::Representation representation, const Hardware& hardware, int64_t columns = 0);
inline FeaturizerPtr make_featurizer(const configs::DataSettings& settings, int64_t columns = 0) {
  return make_featurizer(settings.representation, hardware_of(settings.hardware), columns);
}

}  // namespace foretime::data
