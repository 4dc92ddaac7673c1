#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Matrices side by side.
struct Join {
  static constexpr const char* kName = "join";
  std::vector<Value> inputs = {};

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("inputs", o.inputs);
  }
  bool operator==(const Join&) const = default;
};

}  // namespace foretime::inference
