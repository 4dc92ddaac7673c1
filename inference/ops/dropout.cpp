#include <algorithm>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Dropout::columns(const Widths& widths) const { return widths.of(x); }

Matrix Dropout::run(const Run& run) const {
  const Matrix& from = run.in(x);
  auto y = run.made(from.rows, from.columns);
  std::copy_n(from.values.begin(), from.size(), y.values.begin());
  return y;
}

std::string Dropout::script(ScriptWriter& writer) const { return writer.value(x); }

}  // namespace foretime::inference
