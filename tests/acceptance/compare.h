#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace foretime::acceptance {

/// ‖a - b‖ / ‖b‖ in float64 on the CPU; infinite where sizes differ or a number is not finite.
inline double distance(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  const auto left = a.detach().to(torch::kCPU, torch::kDouble), right = b.detach().to(torch::kCPU, torch::kDouble);
  const double difference = (left - right).norm().item<double>(), norm = right.norm().item<double>();
  if (!std::isfinite(difference) || !std::isfinite(norm)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : difference / std::max(norm, 1e-30);
}

/// As one vector.
inline torch::Tensor joined(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> flat;
  for (const auto& tensor : tensors) flat.push_back(tensor.detach().reshape(-1).to(torch::kCPU, torch::kDouble));
  return torch::cat(flat);
}

/// The same numbers in the same bits.
inline bool same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.scalar_type() == y.scalar_type() && torch::equal(x, y);
         });
}

/// Kendall's τ of `scores` with `reference`, over the pairs whose references differ by more than `least` of their
/// standard deviation; NaN where there are none.
inline double tau_of_distinct(const torch::Tensor& scores, const torch::Tensor& reference, double least) {
  const auto a = scores.detach().to(torch::kCPU, torch::kDouble).contiguous(),
             b = reference.detach().to(torch::kCPU, torch::kDouble).contiguous();
  const double* x = a.data_ptr<double>();
  const double* y = b.data_ptr<double>();
  const double gap = least * b.std().item<double>();
  double agreed = 0, pairs = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const double wanted = y[i] - y[j], found = x[i] - x[j];
      if (!(std::abs(wanted) > gap)) continue;
      ++pairs;
      agreed += found * wanted > 0 ? 1 : found == 0 ? 0 : -1;
    }
  }
  return pairs == 0 ? std::numeric_limits<double>::quiet_NaN() : agreed / pairs;
}

}  // namespace foretime::acceptance
