#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Columns of x, in the order of `columns`.
struct Select {
  static constexpr const char* kName = "select";
  Value x = {};
  std::vector<int64_t> chosen = {};

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("chosen", o.chosen);
  }
  bool operator==(const Select&) const = default;
};

}  // namespace foretime::inference
