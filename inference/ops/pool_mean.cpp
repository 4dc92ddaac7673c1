#include <algorithm>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {
namespace {

constexpr const char* kCounts = R"(
def counts(self, m: Dict[str, Tensor], name: str) -> Tensor:
    first = name if name + ".row_ptr" in m else name + ".0"
    rows = m[first + ".row_ptr"].size(0) - 1
    values = m[first + ".values"].unsqueeze(1)
    zeros = torch.zeros([rows, 1], dtype=values.dtype, device=values.device)
    counts = zeros.index_add(0, self.rows_of(m, first), values)
    stage = 1
    while first != name and name + "." + str(stage) + ".row_ptr" in m:
        counts = self.product(m, name + "." + str(stage), counts)
        stage += 1
    return counts
)";

}  // namespace

int64_t PoolMean::columns(const Widths& widths) const {
  widths.matrix(matrix);
  return widths.of(sums);
}

Matrix PoolMean::run(const Run& run) const {
  const Matrix& from = run.in(sums);
  const auto& counts = run.pool(matrix).counts;
  run.expect_rows(from.rows, counts.size());
  auto y = run.made(from.rows, from.columns);
  for (int64_t r = 0; r < y.rows; ++r) {
    const float count = std::max(1.0F, counts[r]);
    for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] = from.row(r)[k] / count;
  }
  return y;
}

std::string PoolMean::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  writer.helper(kCounts);
  return fmt::format("{} / self.counts(m, {}).clamp_min(1.0)", writer.value(sums), writer.matrix(matrix));
}

}  // namespace foretime::inference
