#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Rows of small whole numbers as vectors: number k of a row chooses row k * values + min(max(number - least, 0),
/// values - 1) of the table; the vectors of a row stand side by side. Row 0 of x, which is no layout, gives zeros.
struct LayoutCodes {
  static constexpr const char* kName = "layout_codes";
  Value x = {};
  WeightRef table = {};  // [columns of x * values, width]
  int64_t values = 1;
  int64_t least = 0;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("table", o.table);
    f("values", o.values);
    f("least", o.least);
  }
  bool operator==(const LayoutCodes&) const = default;
};

}  // namespace foretime::inference
