#include <utility>

#include <fmt/format.h>

#include "inference/ops/operation.h"
#include "inference/runtime/products.h"

namespace foretime::inference {
namespace {

constexpr const char* kAdditive = R"(
def additive(self, m: Dict[str, Tensor], name: str, a: Tensor, b: Tensor, z: Tensor, slope: float) -> Tensor:
    logits = a.index_select(0, self.rows_of(m, name)) + b.index_select(0, m[name + ".columns"])
    return self.weighted(m, name, self.softmax_by_row(m, name, self.leaky(logits, slope)), z)

)";

}  // namespace

int64_t AdditiveAttention::columns(const Widths& widths) const {
  widths.matrix(matrix);
  const int64_t heads = widths.of(target), width = widths.of(x);
  widths.expect(widths.of(source) == heads, "columns of source", widths.of(source), heads);
  widths.expect(width % heads == 0, "columns of x left over by the heads", width % heads, 0);
  return width;
}

Matrix AdditiveAttention::run(const Run& run) const {
  const Matrix &a = run.in(target), &b = run.in(source);
  const Entries entries(run, run.matrix(matrix, b.rows));
  const auto& rows = entries.rows();
  const int64_t heads = a.columns;
  run.expect_rows(a.rows, rows.rows);
  auto logits = run.taken(entries.count() * heads);
  for (int64_t r = 0; r < rows.rows; ++r) {
    for (int64_t e = rows.row_ptr[r]; e < rows.row_ptr[r + 1]; ++e) {
      for (int64_t h = 0; h < heads; ++h) {
        const float v = a.row(r)[h] + b.row(rows.columns[e])[h];
        logits[e * heads + h] = v < 0.0F ? v * static_cast<float>(slope) : v;
      }
    }
  }
  return attended(run, entries, std::move(logits), heads, run.in(x));
}

std::string AdditiveAttention::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  writer.helper(kAttentionMethods);
  writer.helper(kAdditive);
  return fmt::format("self.additive(m, {}, {}, {}, {}, {})", writer.matrix(matrix), writer.value(target),
                     writer.value(source), writer.value(x), writer.number(slope));
}

}  // namespace foretime::inference
