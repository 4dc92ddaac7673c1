#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Add::columns(const Widths& widths) const {
  widths.expect(!inputs.empty(), "inputs", 0, "1 or more");
  widths.expect(factors.size() <= inputs.size(), "factors", factors.size(), fmt::format("at most {}", inputs.size()));
  const int64_t width = widths.of(inputs[0]);
  for (const Value input : inputs)
    widths.expect(widths.of(input) == width, "columns of an input", widths.of(input), width);
  widths.optional_vector(bias, width);
  return width;
}

Matrix Add::run(const Run& run) const {
  const Matrix& first = run.in(inputs[0]);
  auto y = run.made(first.rows, first.columns);
  const float* offsets = run.vector(bias);
  for (int64_t r = 0; r < y.rows; ++r)
    for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] = static_cast<float>(constant) + (offsets ? offsets[k] : 0.0F);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Matrix& x = run.in(inputs[i]);
    run.expect_rows(x.rows, y.rows);
    const float factor = i < factors.size() ? factors[i] : 1.0F;
    for (int64_t at = 0; at < y.size(); ++at) y.values[at] += factor * x.values[at];
  }
  return y;
}

std::string Add::script(ScriptWriter& writer) const {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i)
    text += fmt::format("{}{} * {}", i == 0 ? "" : " + ", writer.number(i < factors.size() ? factors[i] : 1.0),
                        writer.value(inputs[i]));
  if (bias.defined()) text += " + " + writer.weight(bias);
  return constant == 0.0 ? text : text + " + " + writer.number(constant);
}

}  // namespace foretime::inference
