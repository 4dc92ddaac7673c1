#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Row r is the row of the table that r's type, collection or the like chooses.
struct Lookup {
  static constexpr const char* kName = "lookup";
  MatrixRef matrix = {};  // with one entry a row
  WeightRef table = {};

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("matrix", o.matrix);
    f("table", o.table);
  }
  bool operator==(const Lookup&) const = default;
};

}  // namespace foretime::inference
