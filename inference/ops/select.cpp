#include <fmt/format.h>
#include <fmt/ranges.h>

#include "inference/ops/operation.h"

namespace foretime::inference {

int64_t Select::columns(const Widths& widths) const {
  const int64_t width = widths.of(x);
  for (const int64_t column : chosen)
    widths.expect(column >= 0 && column < width, "column", column, fmt::format("0 to {}", width - 1));
  return chosen.size();
}

Matrix Select::run(const Run& run) const {
  const Matrix& from = run.in(x);
  auto y = run.made(from.rows, chosen.size());
  for (int64_t r = 0; r < y.rows; ++r)
    for (size_t k = 0; k < chosen.size(); ++k) y.row(r)[k] = from.row(r)[chosen[k]];
  return y;
}

std::string Select::script(ScriptWriter& writer) const {
  return fmt::format("{0}.index_select(1, torch.tensor([{1}], device={0}.device))", writer.value(x),
                     fmt::join(chosen, ", "));
}

}  // namespace foretime::inference
