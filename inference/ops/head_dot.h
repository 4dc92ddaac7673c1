#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// [rows, heads]: x[r, h] · weight[h] over the columns of each head, which stand side by side in x.
struct HeadDot {
  static constexpr const char* kName = "head_dot";
  Value x = {};
  WeightRef weight = {};  // [heads, width of a head]

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("weight", o.weight);
  }
  bool operator==(const HeadDot&) const = default;
};

}  // namespace foretime::inference
