#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {
namespace {

constexpr const char* kSignedLog = R"(
def signed_log(self, x: Tensor) -> Tensor:
    return torch.sign(x) * torch.log1p(torch.abs(x))

)";

}  // namespace

int64_t Transform::columns(const Widths& widths) const {
  const int64_t width = widths.of(x), length = widths.length(offset);
  widths.expect(start >= 0 && start <= length - width, "start", start, fmt::format("0 to {}", length - width));
  widths.vector(scale, length);
  widths.expect(clip >= 0.0, "clip", clip, "0 or more");
  return width;
}

Matrix Transform::run(const Run& run) const {
  const Matrix& from = run.in(x);
  auto y = run.made(from.rows, from.columns);
  const float *offsets = run.vector(offset) + start, *scales = run.vector(scale) + start;
  const float most = clip;
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t k = 0; k < y.columns; ++k) {
      float v = from.row(r)[k];
      if (log) v = std::copysign(std::log1p(std::abs(v)), v);
      v = (v - offsets[k]) * scales[k];
      y.row(r)[k] = most > 0.0F ? std::clamp(v, -most, most) : v;
    }
  }
  return y;
}

std::string Transform::script(ScriptWriter& writer) const {
  const auto of = writer.value(x);
  if (log) writer.helper(kSignedLog);
  const auto slice = [&](const WeightRef& weight) {
    return fmt::format("{}[{}:{} + {}.size(1)]", writer.weight(weight), start, start, of);
  };
  auto text =
      fmt::format("({} - {}) * {}", log ? fmt::format("self.signed_log({})", of) : of, slice(offset), slice(scale));
  return clip > 0.0 ? fmt::format("({}).clamp({}, {})", text, writer.number(-clip), writer.number(clip)) : text;
}

}  // namespace foretime::inference
