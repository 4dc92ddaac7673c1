#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "inference/ops/operation.h"

namespace foretime::inference {
namespace {

constexpr const char* kStandardized = R"(
def standardized(self, x: Tensor, group_ptr: Tensor, epsilon: float) -> Tensor:
    groups: List[Tensor] = []
    for g in range(group_ptr.size(0) - 1):
        own = x[int(group_ptr[g]):int(group_ptr[g + 1])]
        centered = own - own.mean(0, keepdim=True)
        groups.append(centered * torch.rsqrt((centered * centered).mean(0, keepdim=True) + epsilon))
    return torch.cat(groups)

)";

}  // namespace

int64_t Standardize::columns(const Widths& widths) const {
  if (!widths.groups()) widths.fail("of groups, which only operations of score see");
  return widths.of(x);
}

Matrix Standardize::run(const Run& run) const {
  const Matrix& from = run.in(x);
  auto y = run.made(from.rows, from.columns);
  std::vector<double> mean(from.columns), factor(mean.size());
  const auto groups = run.group_ptr();
  for (size_t g = 0; g + 1 < groups.size(); ++g) {
    const int64_t first = groups[g], last = groups[g + 1];
    const double count = last - first;
    std::fill(mean.begin(), mean.end(), 0.0);
    std::fill(factor.begin(), factor.end(), 0.0);
    for (int64_t r = first; r < last; ++r)
      for (size_t k = 0; k < mean.size(); ++k) mean[k] += from.row(r)[k];
    for (double& sum : mean) sum /= count;
    for (int64_t r = first; r < last; ++r) {
      for (size_t k = 0; k < mean.size(); ++k) {
        const double centered = from.row(r)[k] - mean[k];
        factor[k] += centered * centered;
      }
    }
    for (double& square : factor) square = 1.0 / std::sqrt(square / count + epsilon);
    for (int64_t r = first; r < last; ++r)
      for (size_t k = 0; k < mean.size(); ++k) y.row(r)[k] = ((from.row(r)[k] - mean[k]) * factor[k]);
  }
  return y;
}

std::string Standardize::script(ScriptWriter& writer) const {
  writer.helper(kStandardized);
  return fmt::format("self.standardized({}, group_ptr, {})", writer.value(x), writer.number(epsilon));
}

}  // namespace foretime::inference
