#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// x, of which training sets each number to 0 with this probability and divides the others by 1 - probability. Exported
/// graphs have none.
struct Dropout {
  static constexpr const char* kName = "dropout";
  Value x = {};
  double probability = 0;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("probability", o.probability);
  }
  bool operator==(const Dropout&) const = default;
};

}  // namespace foretime::inference
