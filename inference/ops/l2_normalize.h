#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Each row over its Euclidean norm, which counts as `epsilon` at least.
struct L2Normalize {
  static constexpr const char* kName = "l2_normalize";
  Value x = {};
  double epsilon = 1e-12;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("epsilon", o.epsilon);
  }
  bool operator==(const L2Normalize&) const = default;
};

}  // namespace foretime::inference
