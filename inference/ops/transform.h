#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Features made comparable: clip((f(x) - offset) * scale), f(x) = sign(x) ln(1 + |x|) with `log`, else x. Offset and
/// scale are columns [start, start + columns of x) of longer vectors.
struct Transform {
  static constexpr const char* kName = "transform";
  Value x = {};
  WeightRef offset = {};
  WeightRef scale = {};
  int64_t start = 0;
  bool log = false;
  double clip = 0;  // 0: none

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("offset", o.offset);
    f("scale", o.scale);
    f("start", o.start);
    f("log", o.log);
    f("clip", o.clip);
  }
  bool operator==(const Transform&) const = default;
};

}  // namespace foretime::inference
