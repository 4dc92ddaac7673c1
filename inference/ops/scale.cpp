#include <algorithm>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Scale::columns(const Widths& widths) const {
  const int64_t width = widths.of(x), length = widths.length(factors);
  widths.expect(length == width || length == 1, "factors", length, fmt::format("{} or 1", width));
  return width;
}

Matrix Scale::run(const Run& run) const {
  const Matrix& from = run.in(x);
  const Weight& weight = run.table(factors);
  const float plus = offset;
  std::vector<float> factor(from.columns, plus + weight.values[0]);
  if (weight.values.size() == factor.size())
    std::transform(weight.values.begin(), weight.values.end(), factor.begin(), [&](float f) { return plus + f; });
  auto y = run.made(from.rows, from.columns);
  for (int64_t r = 0; r < y.rows; ++r)
    for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] = from.row(r)[k] * factor[k];
  return y;
}

std::string Scale::script(ScriptWriter& writer) const {
  return fmt::format("{} * ({} + {})", writer.value(x), writer.number(offset), writer.weight(factors));
}

}  // namespace foretime::inference
