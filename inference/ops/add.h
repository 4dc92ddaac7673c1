#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Σ factors[i] inputs[i] + bias + constant. Factors that are not given are 1.
struct Add {
  static constexpr const char* kName = "add";
  std::vector<Value> inputs = {};
  std::vector<double> factors = {};
  WeightRef bias = {};  // [columns], or none
  double constant = 0;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("inputs", o.inputs);
    f("factors", o.factors);
    f("bias", o.bias);
    f("constant", o.constant);
  }
  bool operator==(const Add&) const = default;
};

}  // namespace foretime::inference
