#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// x * (offset + factors), column by column; a single factor counts for all columns.
struct Scale {
  static constexpr const char* kName = "scale";
  Value x = {};
  WeightRef factors = {};  // [columns] or [1]
  double offset = 0;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("factors", o.factors);
    f("offset", o.offset);
  }
  bool operator==(const Scale&) const = default;
};

}  // namespace foretime::inference
