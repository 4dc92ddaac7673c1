#include <fmt/format.h>

#include "inference/kernels/dense_kernels.h"
#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t L2Normalize::columns(const Widths& widths) const { return widths.of(x); }

Matrix L2Normalize::run(const Run& run) const {
  const Matrix& from = run.in(x);
  auto y = run.made(from.rows, from.columns);
  inference::l2_normalize(from, epsilon, y);
  return y;
}

std::string L2Normalize::script(ScriptWriter& writer) const {
  return fmt::format("{0} / {0}.norm(2, -1, True).clamp_min({1})", writer.value(x), writer.number(epsilon));
}

}  // namespace foretime::inference
