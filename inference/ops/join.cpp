#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Join::columns(const Widths& widths) const {
  widths.expect(!inputs.empty(), "inputs", 0, "1 or more");
  int64_t width = 0;
  for (const Value input : inputs) width = std::min(kWidest + 1, width + widths.of(input));
  return width;
}

Matrix Join::run(const Run& run) const {
  int64_t width = 0;
  for (const Value input : inputs) width += run.in(input).columns;
  auto y = run.made(run.in(inputs[0]).rows, width);
  int64_t start = 0;
  for (const Value input : inputs) {
    const Matrix& x = run.in(input);
    run.expect_rows(x.rows, y.rows);
    for (int64_t r = 0; r < y.rows; ++r) std::copy(x.row(r), x.row(r) + x.columns, y.row(r) + start);
    start += x.columns;
  }
  return y;
}

std::string Join::script(ScriptWriter& writer) const {
  std::vector<std::string> names;
  for (const Value input : inputs) names.push_back(writer.value(input));
  return fmt::format("torch.cat([{}], 1)", fmt::join(names, ", "));
}

}  // namespace foretime::inference
