#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace foretime::testing {

/// Compares the gradient of `f`, a scalar, with central differences at each of `leaves` (float64, requires_grad). Of
/// large leaves, at most `most` elements, evenly spread, are tried.
inline void expect_gradients(const std::function<torch::Tensor()>& f,
                             const std::vector<std::pair<std::string, torch::Tensor>>& leaves, double tolerance = 1e-6,
                             int64_t most = 24) {
  constexpr double kStep = 1e-6;
  for (const auto& [name, leaf] : leaves) {
    ASSERT_EQ(leaf.scalar_type(), torch::kDouble) << name;
    if (leaf.grad().defined()) leaf.mutable_grad().zero_();
  }
  f().backward();
  for (const auto& [name, leaf] : leaves) {
    ASSERT_TRUE(leaf.grad().defined()) << name << " has no gradient";
    const auto values = leaf.detach().view(-1), gradient = leaf.grad().reshape(-1);
    torch::NoGradGuard no_gradient;
    const int64_t stride = std::max<int64_t>(1, values.numel() / most);
    for (int64_t i = 0; i < values.numel(); i += stride) {
      const double before = values[i].item<double>();
      values[i] = before + kStep;
      const double above = f().item<double>();
      values[i] = before - kStep;
      const double below = f().item<double>();
      values[i] = before;
      const double expected = (above - below) / (2 * kStep), found = gradient[i].item<double>();
      EXPECT_NEAR(found, expected, tolerance * std::max(1.0, std::abs(expected))) << name << " element " << i;
    }
  }
}

}  // namespace foretime::testing
