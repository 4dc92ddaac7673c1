#include <utility>

#include <fmt/format.h>

#include "inference/ops/operation.h"
#include "inference/runtime/products.h"

namespace foretime::inference {
namespace {

constexpr const char* kDot = R"(
def dot(self, m: Dict[str, Tensor], name: str, a: Tensor, b: Tensor, z: Tensor, heads: int, scale: float) -> Tensor:
    products = a.index_select(0, self.rows_of(m, name)) * b.index_select(0, m[name + ".columns"])
    logits = products.view([-1, heads, a.size(1) // heads]).sum(2) * scale
    return self.weighted(m, name, self.softmax_by_row(m, name, logits), z)

)";

}  // namespace

int64_t DotAttention::columns(const Widths& widths) const {
  widths.matrix(matrix);
  const int64_t width = widths.of(query), result = widths.of(value);
  widths.expect(heads >= 1 && heads <= kWidest, "heads", heads, fmt::format("1 to {}", kWidest));
  widths.expect(widths.of(key) == width, "columns of key", widths.of(key), width);
  widths.expect(width % heads == 0, "columns of query left over by the heads", width % heads, 0);
  widths.expect(result % heads == 0, "columns of value left over by the heads", result % heads, 0);
  return result;
}

Matrix DotAttention::run(const Run& run) const {
  const Matrix &a = run.in(query), &b = run.in(key);
  const Entries entries(run, run.matrix(matrix, b.rows));
  run.expect_rows(a.rows, entries.rows().rows);
  auto logits = run.taken(entries.count() * heads);
  entry_products<float>(entries.rows(), a.values.data(), b.values.data(), heads, a.columns / heads, logits.data());
  for (int64_t i = 0; i < entries.count() * heads; ++i) logits[i] *= static_cast<float>(scale);
  return attended(run, entries, std::move(logits), heads, run.in(value));
}

std::string DotAttention::script(ScriptWriter& writer) const {
  writer.sparse_helpers();
  writer.helper(kAttentionMethods);
  writer.helper(kDot);
  return fmt::format("self.dot(m, {}, {}, {}, {}, {}, {})", writer.matrix(matrix), writer.value(query),
                     writer.value(key), writer.value(value), heads, writer.number(scale));
}

}  // namespace foretime::inference
