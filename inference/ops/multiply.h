#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// x * z, element by element.
struct Multiply {
  static constexpr const char* kName = "multiply";
  Value x = {};
  Value z = {};

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("z", o.z);
  }
  bool operator==(const Multiply&) const = default;
};

}  // namespace foretime::inference
