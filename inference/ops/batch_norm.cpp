#include <cmath>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t BatchNorm::columns(const Widths& widths) const {
  const int64_t width = widths.of(x);
  for (const auto* vector : {&weight, &bias, &mean, &variance}) widths.vector(*vector, width);
  return width;
}

Matrix BatchNorm::run(const Run& run) const {
  const Matrix& from = run.in(x);
  const size_t width = from.columns;
  const float *w = run.vector(weight), *b = run.vector(bias), *m = run.vector(mean), *v = run.vector(variance);
  std::vector<float> factor(width), shift(width);
  for (size_t k = 0; k < width; ++k) {
    factor[k] = w[k] / std::sqrt(v[k] + static_cast<float>(epsilon));
    shift[k] = b[k] - m[k] * factor[k];
  }
  auto y = run.made(from.rows, from.columns);
  for (int64_t r = 0; r < y.rows; ++r)
    for (size_t k = 0; k < width; ++k) y.row(r)[k] = from.row(r)[k] * factor[k] + shift[k];
  return y;
}

std::string BatchNorm::script(ScriptWriter& writer) const {
  return fmt::format("({} - {}) * torch.rsqrt({} + {}) * {} + {}", writer.value(x), writer.weight(mean),
                     writer.weight(variance), writer.number(epsilon), writer.weight(weight), writer.weight(bias));
}

}  // namespace foretime::inference
