#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Each column by its mean and variance (Ioffe and Szegedy, arXiv 1502.03167): (x - mean) / sqrt(variance + epsilon) *
/// weight + bias. Here these are the running ones; in training those of the batch, where the states of `level` count as
/// often as pairs of a node and a candidate have them.
struct BatchNorm {
  static constexpr const char* kName = "batch_norm";
  Value x = {};
  WeightRef weight = {};
  WeightRef bias = {};
  WeightRef mean = {};
  WeightRef variance = {};
  double epsilon = 1e-5;
  int64_t level = 0;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("weight", o.weight);
    f("bias", o.bias);
    f("mean", o.mean);
    f("variance", o.variance);
    f("epsilon", o.epsilon);
    f("level", o.level);
  }
  bool operator==(const BatchNorm&) const = default;
};

}  // namespace foretime::inference
