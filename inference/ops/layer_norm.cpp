#include <fmt/format.h>

#include "inference/kernels/dense_kernels.h"
#include "inference/ops/operation.h"

namespace foretime::inference {
namespace {

constexpr const char* kLayerNorm = R"(
def layer_norm(self, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    centered = x - x.mean(1, keepdim=True)
    return centered * torch.rsqrt((centered * centered).mean(1, keepdim=True) + epsilon) * weight + bias

)";

}  // namespace

int64_t LayerNorm::columns(const Widths& widths) const {
  const int64_t width = widths.of(x);
  widths.vector(weight, width);
  widths.vector(bias, width);
  return width;
}

Matrix LayerNorm::run(const Run& run) const {
  const Matrix& from = run.in(x);
  auto y = run.made(from.rows, from.columns);
  layer_normalize(from, run.vector(weight), run.vector(bias), epsilon, y);
  return y;
}

std::string LayerNorm::script(ScriptWriter& writer) const {
  writer.helper(kLayerNorm);
  return fmt::format("self.layer_norm({}, {}, {}, {})", writer.value(x), writer.weight(weight), writer.weight(bias),
                     writer.number(epsilon));
}

}  // namespace foretime::inference
