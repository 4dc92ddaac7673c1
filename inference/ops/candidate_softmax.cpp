#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {
namespace {

constexpr const char* kCompared = R"(
def compared(self, x: Tensor, group_ptr: Tensor, scale: Tensor) -> Tensor:
    groups: List[Tensor] = []
    for g in range(group_ptr.size(0) - 1):
        own = x[int(group_ptr[g]):int(group_ptr[g + 1])]
        groups.append(own * torch.softmax(own * scale, 0) * own.size(0))
    return torch.cat([x, torch.cat(groups)], 1)

)";

}  // namespace

int64_t CandidateSoftmax::columns(const Widths& widths) const {
  if (!widths.groups()) widths.fail("of groups, which only operations of score see");
  widths.vector(log_temperature, 1);
  return 2 * widths.of(x);
}

Matrix CandidateSoftmax::run(const Run& run) const {
  const Matrix& from = run.in(x);
  const size_t width = from.columns;
  auto y = run.made(from.rows, 2 * from.columns);
  const float scale = std::exp(-run.vector(log_temperature)[0]);
  std::vector<double> sums(width);
  std::vector<float> most(width);
  const auto groups = run.group_ptr();
  for (size_t g = 0; g + 1 < groups.size(); ++g) {
    const int64_t first = groups[g], last = groups[g + 1];
    const double count = last - first;
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(most.begin(), most.end(), -std::numeric_limits<float>::infinity());
    for (int64_t r = first; r < last; ++r)
      for (size_t k = 0; k < width; ++k) most[k] = std::max(most[k], from.row(r)[k] * scale);
    for (int64_t r = first; r < last; ++r) {
      for (size_t k = 0; k < width; ++k) {
        const float exponential = std::exp(from.row(r)[k] * scale - most[k]);
        y.row(r)[width + k] = exponential;
        sums[k] += exponential;
      }
    }
    for (int64_t r = first; r < last; ++r) {
      for (size_t k = 0; k < width; ++k) {
        const float v = from.row(r)[k];
        y.row(r)[k] = v;
        y.row(r)[width + k] *= v * static_cast<float>(count / sums[k]);
      }
    }
  }
  return y;
}

std::string CandidateSoftmax::script(ScriptWriter& writer) const {
  writer.helper(kCompared);
  return fmt::format("self.compared({}, group_ptr, torch.exp(-{}))", writer.value(x), writer.weight(log_temperature));
}

}  // namespace foretime::inference
