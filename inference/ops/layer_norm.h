#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Each row over its own columns (Ba et al., arXiv 1607.06450): (x - mean) / sqrt(variance + epsilon) * weight + bias.
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  Value x = {};
  WeightRef weight = {};
  WeightRef bias = {};
  double epsilon = 1e-5;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("weight", o.weight);
    f("bias", o.bias);
    f("epsilon", o.epsilon);
  }
  bool operator==(const LayerNorm&) const = default;
};

}  // namespace foretime::inference
