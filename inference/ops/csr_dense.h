#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// act(Σ_t matrices[t] x weights[t]ᵀ + bias): a convolution that sums linear layers of messages. Whether x is
/// multiplied by a weight or by a matrix first is up to whoever runs it.
struct CsrDense {
  static constexpr const char* kName = "csr_dense";
  Value x = {};
  std::vector<MatrixRef> matrices = {};
  std::vector<WeightRef> weights = {};  // [outputs, columns of x]
  WeightRef bias = {};                  // [outputs], or none
  double slope = 1;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("matrices", o.matrices);
    f("weights", o.weights);
    f("bias", o.bias);
    f("slope", o.slope);
  }
  bool operator==(const CsrDense&) const = default;
};

}  // namespace foretime::inference
