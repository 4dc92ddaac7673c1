#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/frontends/loops/program_graphs.h"

namespace foretime::data {

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

/// Each program one node of type PrimFunc without edges: what a predictor on fixed vectors reads.
class CurveGraphs : public ProgramGraphs {
 public:
  void add(const LoopProgram& program, double operations) override;
  GraphBlock finish() override;

 private:
  std::vector<float> features_;
  int64_t programs_ = 0;
};

}  // namespace foretime::data
