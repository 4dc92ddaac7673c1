#include <fmt/format.h>

#include "inference/kernels/dense_kernels.h"
#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Dense::columns(const Widths& widths) const {
  const auto [outputs, all] = widths.table(weight);
  const int64_t width = widths.of(x);
  widths.expect(all <= kWidest, "columns of the weight", all, fmt::format("at most {}", kWidest));
  widths.expect(start >= 0 && start <= all - width, "columns of the weight", all,
                fmt::format("at least {}", start + width));
  widths.optional_vector(bias, outputs);
  return outputs;
}

Matrix Dense::run(const Run& run) const {
  const Matrix& from = run.in(x);
  const Weight& w = run.table(weight);
  auto y = run.made(from.rows, w.shape[0]);
  dense_product(from, w.values.data() + start, w.shape[1], run.vector(bias), slope, y);
  return y;
}

std::string Dense::script(ScriptWriter& writer) const {
  const auto of = writer.value(x);
  auto text = fmt::format("{}.matmul({}[:, {}:{} + {}.size(1)].t())", of, writer.weight(weight), start, start, of);
  if (bias.defined()) text = fmt::format("({} + {})", text, writer.weight(bias));
  return writer.activated(text, slope);
}

}  // namespace foretime::inference
