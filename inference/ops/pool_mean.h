#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/runtime/references.h"
#include "inference/runtime/run.h"
#include "inference/runtime/script_writer.h"
#include "inference/runtime/widths.h"

namespace foretime::inference {

/// Sums over a pool by the number of states in each row (the sum of its entries, at least 1): their means.
struct PoolMean {
  static constexpr const char* kName = "pool_mean";
  Value sums = {};
  MatrixRef matrix = {};  // the pool

  int64_t columns(const Widths& widths) const;
  Matrix run(const Run& run) const;
  std::string script(ScriptWriter& writer) const;

  template <class Self, class F>
  static void fields(Self& o, F&& f) {
    f("sums", o.sums);
    f("matrix", o.matrix);
  }
  bool operator==(const PoolMean&) const = default;
};

}  // namespace foretime::inference
