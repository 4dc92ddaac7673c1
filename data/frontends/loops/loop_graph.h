#pragma once

#include <cstdint>
#include <memory>

#include "configs/settings.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/loop_program.h"
#include "data/frontends/loops/machines.h"
#include "data/graphs/group.h"
#include "data/graphs/program_nodes.h"

namespace foretime::data {

/// Collects graphs of programs in one block, in one representation.
class ProgramGraphs {
 public:
  virtual ~ProgramGraphs() = default;
  /// Adds the graph of a program, which has `operations` arithmetic operations; 0: unknown. Throws DataError above 2^31
  /// - 1 nodes or edges in all, and, for graphs with GPU columns, if the program is not for GPUs.
  virtual void add(const LoopProgram& program, double operations) = 0;
  virtual GraphBlock finish() = 0;  // returns the graphs added so far, in their order, and empties the object
};

/// Returns the number of node features of a representation, without GPU columns; 0 for any but `loops` and `curve`.
int64_t program_columns(configs::Representation representation);
/// Returns an empty collection of graphs of a representation; null for any but `loops` and `curve`.
///
/// `curve`: each program is one node of type PrimFunc without edges, for a predictor on fixed vectors.
///
/// `loops`: for each statement, in order, a node of type BufferStore; then For nodes, its loops from the innermost
/// outwards; BufferLoad nodes, its accesses, the store first; and nodes of types Add, Mul, Div, Max, Select, Call, Cast
/// for its operations. LoopColumns are the features. Edges (source → target):
/// - a loop, an access, an operation → its statement
/// - a loop → the loop around it
/// - an access → the statement's loops that move it
/// - a statement → the access that reads its result (data flow)
/// - a statement → the next one
///
/// Every node of a statement follows the statement and precedes the next one. A program without statements is one
/// BufferStore node. `columns` is the number of node features of loop graphs: LoopColumns::count (also for 0) or
/// LoopColumns::kWithGpu, which adds GPU columns. Graphs of `curve` depend on neither `hardware` nor `columns`.
std::unique_ptr<ProgramGraphs> make_program_graphs(configs::Representation representation, const Hardware& hardware,
                                                   int64_t columns = 0);

/// Defines the columns of the single node of a program in the form `curve`: context relation features (Chen et al.,
/// Learning to Optimize Tensor Programs, arXiv 1805.08166, section 3.2 and appendix). An access has three context
/// features at each loop level of its statement: the number of elements that it touches from there on (Z_touch), how
/// often it touches each (Z_reuse), and how often the level runs (Z_top, the product of the loops outside). A curve is
/// the maximum of one of them over the levels where another is at most a threshold; thresholds are powers of 4. The
/// curves are computed for the kStatements statements with most iterations, each for the store and the two loads of the
/// largest buffers:
/// - reuse over touch: the reuse that a cache of as many elements sees
/// - iterations over touch: the work of the largest inner loop nest that touches as many elements
/// - top over reuse: how often loops run that have no more reuse
///
/// All values are log2(1 + x).
struct CurveColumns {
  static constexpr int64_t kStatements = 2, kAccesses = 3, kCurves = 3, kThresholds = 12;
  static constexpr int64_t count = kStatements * kAccesses * kCurves * kThresholds;

  static constexpr int64_t column(int64_t statement, int64_t access, int64_t curve, int64_t threshold) {
    return ((statement * kAccesses + access) * kCurves + curve) * kThresholds + threshold;
  }
};

/// Returns the hardware that the settings data.hardware describe; that of a GPU if `multiprocessors` is above 0, which
/// is then also the number of cores.
Hardware hardware_of(const configs::HardwareSettings& settings);

/// Returns the featurizer that makes the graphs of make_program_graphs from syntax trees, with its `columns`; null for
/// `ast`, which keeps the trees.
/// Programs with a target run on what `machines` know of it (Machines::hardware_of_tir), others on `hardware`.
FeaturizerPtr make_featurizer(configs::Representation representation, const Hardware& hardware, int64_t columns = 0,
                              const Machines& machines = {});
/// Returns the featurizer for the representation and the hardware in `settings`; null for `ast`.
inline FeaturizerPtr make_featurizer(const configs::DataSettings& settings, int64_t columns = 0) {
  return make_featurizer(settings.representation, hardware_of(settings.hardware), columns);
}

}  // namespace foretime::data
