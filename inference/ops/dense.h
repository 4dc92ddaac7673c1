#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// act(x W[:, start : start + columns of x]ᵀ + b): a linear layer, or the part of one that takes some of its inputs.
/// act multiplies negative numbers by `slope` (1: no activation).
struct Dense {
  static constexpr const char* kName = "dense";
  Value x = {};
  WeightRef weight = {};  // [outputs, inputs]
  WeightRef bias = {};    // [outputs], or none
  int64_t start = 0;
  double slope = 1;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("weight", o.weight);
    f("bias", o.bias);
    f("start", o.start);
    f("slope", o.slope);
  }
  bool operator==(const Dense&) const = default;
};

}  // namespace foretime::inference
