#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// y[r] = Σ_e α_e value[column(e)] over the entries e of row r, head by head, α the softmax over the row's entries of
/// scale * query[r] · key[column]; an entry of value m counts as m entries (Shi et al., arXiv 2009.03509).
struct DotAttention {
  static constexpr const char* kName = "dot_attention";
  MatrixRef matrix = {};
  Value query = {};  // [rows, heads * width]
  Value key = {};    // [columns, heads * width]
  Value value = {};  // [columns, heads * any]
  int64_t heads = 1;
  double scale = 1;

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("matrix", o.matrix);
    f("query", o.query);
    f("key", o.key);
    f("value", o.value);
    f("heads", o.heads);
    f("scale", o.scale);
  }
  bool operator==(const DotAttention&) const = default;
};

}  // namespace foretime::inference
