#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// y[r] = Σ_e α_e x[column(e)] over the entries e of row r, head by head, α the softmax over the row's entries of
/// act(target[r, h] + source[column, h]); an entry of value m counts as m entries (Veličković et al., arXiv
/// 1710.10903).
struct AdditiveAttention {
  static constexpr const char* kName = "additive_attention";
  MatrixRef matrix = {};
  Value target = {};  // [rows, heads]
  Value source = {};  // [columns, heads]
  Value x = {};       // [columns, heads * width]
  double slope = 1;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("matrix", o.matrix);
    f("target", o.target);
    f("source", o.source);
    f("x", o.x);
    f("slope", o.slope);
  }
  bool operator==(const AdditiveAttention&) const = default;
};

}  // namespace foretime::inference
