#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Multiply::columns(const Widths& widths) const {
  const int64_t width = widths.of(x);
  widths.expect(widths.of(z) == width, "columns of z", widths.of(z), width);
  return width;
}

Matrix Multiply::run(const Run& run) const {
  const Matrix &a = run.in(x), &b = run.in(z);
  run.expect_rows(b.rows, a.rows);
  auto y = run.made(a.rows, a.columns);
  for (int64_t at = 0; at < y.size(); ++at) y.values[at] = a.values[at] * b.values[at];
  return y;
}

std::string Multiply::script(ScriptWriter& writer) const {
  return fmt::format("{} * {}", writer.value(x), writer.value(z));
}

}  // namespace foretime::inference
