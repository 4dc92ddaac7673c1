#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Average::columns(const Widths& widths) const {
  widths.expect(!inputs.empty(), "inputs", 0, "1 or more");
  const int64_t width = widths.of(inputs[0]);
  for (const Value input : inputs)
    widths.expect(widths.of(input) == width, "columns of an input", widths.of(input), width);
  return width;
}

Matrix Average::run(const Run& run) const {
  const Matrix& first = run.in(inputs[0]);
  auto y = run.made(first.rows, first.columns);
  std::copy_n(first.values.begin(), y.size(), y.values.begin());
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Matrix& x = run.in(inputs[i]);
    run.expect_rows(x.rows, y.rows);
    for (int64_t at = 0; at < y.size(); ++at) y.values[at] += x.values[at];
  }
  const float count = inputs.size();
  for (int64_t at = 0; at < y.size(); ++at) y.values[at] /= count;
  return y;
}

std::string Average::script(ScriptWriter& writer) const {
  std::vector<std::string> names;
  for (const Value input : inputs) names.push_back(writer.value(input));
  return fmt::format("torch.stack([{}]).mean(0)", fmt::join(names, ", "));
}

}  // namespace foretime::inference
