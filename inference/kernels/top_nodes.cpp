#include "inference/kernels/top_nodes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace foretime::inference {
namespace {

constexpr double kWhole = 1e-9;  // ratio * n may lie this much above a whole number, relative, and still be it

}  // namespace

int64_t kept_nodes(int64_t nodes, double ratio) {
  const auto wanted = static_cast<double>(nodes) * ratio;
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(wanted * (1 - kWhole))), std::min<int64_t>(1, nodes),
                             nodes);
}

void choose_nodes(std::span<const double> scores, int64_t count, double tie_part, int64_t first, int64_t* kept) {
  const auto nodes = static_cast<int64_t>(scores.size());
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int64_t place) { return scores[static_cast<size_t>(order[static_cast<size_t>(place)])]; };
  if (count < nodes) {
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
      return x != y ? x > y : a < b;
    });
    const double tie = tie_part * std::max(std::abs(score(0)), std::abs(score(nodes - 1)));
    const auto tied = [&](int64_t place) { return !(score(place - 1) - score(place) > tie); };
    int64_t begin = count, end = count;
    while (begin > 0 && tied(begin)) --begin;
    if (begin < count) {
      while (end < nodes && tied(end)) ++end;
      std::sort(order.begin() + begin, order.begin() + end);
    }
    std::sort(order.begin(), order.begin() + count);
  }
  for (int64_t i = 0; i < count; ++i) kept[i] = first + order[static_cast<size_t>(i)];
}

}  // namespace foretime::inference
