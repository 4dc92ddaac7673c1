#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

inline constexpr const char* kPoolStatesModes[] = {"sum", "max"};

/// Sums or maxima over a pool of states (references.h), through its stages.
struct PoolStates {
  static constexpr const char* kName = "pool";
  enum class Mode : uint8_t { sum, max };
  Value x = {};
  MatrixRef matrix = {};
  Mode mode = Mode::sum;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("matrix", o.matrix);
    f("mode", o.mode, kPoolStatesModes);
  }
  bool operator==(const PoolStates&) const = default;
};

}  // namespace foretime::inference
