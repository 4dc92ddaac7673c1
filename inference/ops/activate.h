#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

inline constexpr const char* kActivateModes[] = {"leaky", "tanh", "exp", "log", "rsqrt"};

/// A function of each number: leaky multiplies negative ones by `number` (0: ReLU); tanh, exp and log are those; rsqrt
/// is 1 / sqrt(x + number).
struct Activate {
  static constexpr const char* kName = "activate";
  enum class Mode : uint8_t { leaky, tanh, exp, log, rsqrt };
  Value x = {};
  Mode mode = Mode::leaky;
  double number = 0;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("mode", o.mode, kActivateModes);
    f("number", o.number);
  }
  bool operator==(const Activate&) const = default;
};

}  // namespace foretime::inference
