#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Row r is the maximum of x[column] over the entries of row r of the matrix, whatever their values; 0 without entries.
struct CsrMax {
  static constexpr const char* kName = "csr_max";
  Value x = {};
  MatrixRef matrix = {};

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("x", o.x);
    f("matrix", o.matrix);
  }
  bool operator==(const CsrMax&) const = default;
};

}  // namespace foretime::inference
