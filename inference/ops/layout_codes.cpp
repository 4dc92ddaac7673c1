#include <algorithm>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {
namespace {

constexpr const char* kCodes = R"(
def codes(self, x: Tensor, table: Tensor, values: int, least: float) -> Tensor:
    code = (x - least).clamp(0, values - 1).long()
    first = values * torch.arange(x.size(1), device=x.device)
    vectors = table.index_select(0, (code + first).view(-1)).view([x.size(0), -1])
    return vectors * (torch.arange(x.size(0), device=x.device).unsqueeze(1) > 0).to(x.dtype)

)";

}  // namespace

int64_t LayoutCodes::columns(const Widths& widths) const {
  const int64_t width = widths.of(x);
  widths.expect(values >= 1 && values <= 256, "values", values, "1 to 256");
  widths.expect(least >= -128 && least <= 127, "least", least, "-128 to 127");
  const auto [rows, each] = widths.table(table);
  widths.expect(rows == width * values, "rows of the table", rows, width * values);
  return std::min(kWidest + 1, width * std::min(each, kWidest));
}

Matrix LayoutCodes::run(const Run& run) const {
  const Matrix& from = run.in(x);
  const Weight& vectors = run.table(table);
  const int64_t width = vectors.shape[1];
  const auto lowest = static_cast<float>(least), highest = values - 1.0F;
  auto y = run.made(from.rows, from.columns * width);
  for (int64_t r = 0; r < from.rows; ++r) {
    for (int64_t k = 0; k < from.columns; ++k) {
      const float above = from.row(r)[k] - lowest;  // NaN counts as the least
      const float code = above > 0.0F ? std::min(above, highest) : 0.0F;
      const float* row = vectors.values.data() + (k * values + static_cast<int64_t>(code)) * width;
      for (int64_t j = 0; j < width; ++j) y.row(r)[k * width + j] = r == 0 ? 0.0F : row[j];
    }
  }
  return y;
}

std::string LayoutCodes::script(ScriptWriter& writer) const {
  writer.helper(kCodes);
  return fmt::format("self.codes({}, {}, {}, {})", writer.value(x), writer.weight(table), values, writer.number(least));
}

}  // namespace foretime::inference
