#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t HeadDot::columns(const Widths& widths) const {
  const auto [heads, width] = widths.table(weight);
  const int64_t all = widths.of(x);
  widths.expect(heads >= 1 && width >= 1 && all == heads * width, "columns of x", all, heads * width);
  return heads;
}

Matrix HeadDot::run(const Run& run) const {
  const Matrix& from = run.in(x);
  const Weight& w = run.table(weight);
  const int64_t heads = w.shape[0], width = w.shape[1];
  auto y = run.made(from.rows, heads);
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      float sum = 0.0F;
      for (int64_t k = 0; k < width; ++k) sum += from.row(r)[h * width + k] * w.values[h * width + k];
      y.row(r)[h] = sum;
    }
  }
  return y;
}

std::string HeadDot::script(ScriptWriter& writer) const {
  const auto of = writer.value(x), w = writer.weight(weight);
  return fmt::format("({0}.view([{0}.size(0), {1}.size(0), {1}.size(1)]) * {1}).sum(2)", of, w);
}

}  // namespace foretime::inference
