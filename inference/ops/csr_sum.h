#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// act(Σ_t matrices[t] inputs[t] + bias), in one pass over the rows.
struct CsrSum {
  static constexpr const char* kName = "csr_sum";
  std::vector<MatrixRef> matrices = {};
  std::vector<Value> inputs = {};
  WeightRef bias = {};  // [columns], or none
  double slope = 1;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("matrices", o.matrices);
    f("inputs", o.inputs);
    f("bias", o.bias);
    f("slope", o.slope);
  }
  bool operator==(const CsrSum&) const = default;
};

}  // namespace foretime::inference
