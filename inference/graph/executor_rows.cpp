#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "inference/graph/executor_run.h"
#include "inference/kernels/dense_kernels.h"

namespace foretime::inference {

Matrix Executor::Run::dense() const {
  const Matrix& x = input(0);
  const Weight& w = *step_->weights[0];
  auto y = made(x.rows, w.shape[0]);
  dense_product(x, w.values.data() + static_cast<int64_t>(number("start", 0.0)), w.shape[1], weight(1), slope(), y);
  return y;
}

Matrix Executor::Run::add(const Operation& o) const {
  const Matrix& first = input(0);
  auto y = made(first.rows, first.columns);
  const float* bias = weight(0);
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] = bias ? bias[k] : 0.0F;
  }
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    const Matrix& x = input(i);
    expect_rows(x.rows, y.rows);
    const float factor = number(fmt::format("factor{}", i).c_str(), 1.0);
    for (int64_t at = 0; at < y.size(); ++at)
      y.values[static_cast<size_t>(at)] += factor * x.values[static_cast<size_t>(at)];
  }
  return y;
}

Matrix Executor::Run::multiply() const {
  const Matrix &x = input(0), &z = input(1);
  expect_rows(z.rows, x.rows);
  auto y = made(x.rows, x.columns);
  for (int64_t at = 0; at < y.size(); ++at)
    y.values[static_cast<size_t>(at)] = x.values[static_cast<size_t>(at)] * z.values[static_cast<size_t>(at)];
  return y;
}

Matrix Executor::Run::activate(const Operation& o) const {
  const Matrix& x = input(0);
  auto y = made(x.rows, x.columns);
  const auto each = [&](auto&& function) {
    for (int64_t at = 0; at < y.size(); ++at)
      y.values[static_cast<size_t>(at)] = function(x.values[static_cast<size_t>(at)]);
  };
  const float slope = this->slope();
  if (o.mode == "leaky") each([slope](float v) { return v < 0.0F ? v * slope : v; });
  if (o.mode == "tanh") each([](float v) { return std::tanh(v); });
  if (o.mode == "exp") each([](float v) { return std::exp(v); });
  if (o.mode == "log") each([](float v) { return std::log(v); });
  return y;
}

Matrix Executor::Run::join(const Operation& o) const {
  int64_t width = 0;
  for (size_t i = 0; i < o.inputs.size(); ++i) width += input(i).columns;
  auto y = made(input(0).rows, width);
  int64_t start = 0;
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    const Matrix& x = input(i);
    expect_rows(x.rows, y.rows);
    for (int64_t r = 0; r < y.rows; ++r) std::copy(x.row(r), x.row(r) + x.columns, y.row(r) + start);
    start += x.columns;
  }
  return y;
}

Matrix Executor::Run::select(const Operation& o) const {
  const Matrix& x = input(0);
  auto y = made(x.rows, static_cast<int64_t>(o.columns.size()));
  for (int64_t r = 0; r < y.rows; ++r) {
    for (size_t k = 0; k < o.columns.size(); ++k) y.row(r)[k] = x.row(r)[o.columns[k]];
  }
  return y;
}

Matrix Executor::Run::transform() const {
  const Matrix& x = input(0);
  auto y = made(x.rows, x.columns);
  const bool log = number("log", 0.0) != 0.0F;
  const float clip = number("clip", 0.0);
  const float *offset = weight(0), *scale = weight(1);
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t k = 0; k < y.columns; ++k) {
      float v = x.row(r)[k];
      if (log) v = std::copysign(std::log1p(std::abs(v)), v);
      v = (v - offset[k]) * scale[k];
      y.row(r)[k] = clip > 0.0F ? std::clamp(v, -clip, clip) : v;
    }
  }
  return y;
}

Matrix Executor::Run::normalize(const Operation& o) const {
  const Matrix& x = input(0);
  auto y = made(x.rows, x.columns);
  if (o.mode == "layer") layer_normalize(x, weight(0), weight(1), number("epsilon", 1e-5), y);
  if (o.mode == "l2") l2_normalize(x, number("epsilon", 1e-12), y);
  if (o.mode == "affine") {
    for (int64_t r = 0; r < y.rows; ++r) {
      for (int64_t k = 0; k < y.columns; ++k) y.row(r)[k] = x.row(r)[k] * weight(0)[k] + weight(1)[k];
    }
  }
  return y;
}

Matrix Executor::Run::codes() const {
  const Matrix& x = input(0);
  const Weight& table = *step_->weights[0];
  const int64_t width = table.shape[1];
  const float values = number("values", 1.0), least = number("least", 0.0);
  auto y = made(x.rows, x.columns * width);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t k = 0; k < x.columns; ++k) {
      const float above = x.row(r)[k] - least;  // NaN counts as the least
      const float code = above > 0.0F ? std::min(above, values - 1.0F) : 0.0F;
      const auto at = k * static_cast<int64_t>(values) + static_cast<int64_t>(code);
      const float* row = table.values.data() + at * width;
      for (int64_t j = 0; j < width; ++j) y.row(r)[k * width + j] = r == 0 ? 0.0F : row[j];
    }
  }
  return y;
}

Matrix Executor::Run::group(const Operation& o) const {
  const Matrix& x = input(0);
  const bool softmax = o.mode == "softmax";
  auto y = made(x.rows, softmax ? 2 * x.columns : x.columns);
  std::vector<double> sums(static_cast<size_t>(x.columns)), squares(sums.size());
  std::vector<float> most(sums.size());
  for (size_t g = 0; g + 1 < group_ptr_.size(); ++g) {
    const int64_t first = group_ptr_[g], last = group_ptr_[g + 1];
    if (first == last) continue;
    const auto count = static_cast<double>(last - first);
    std::fill(sums.begin(), sums.end(), 0.0);
    if (!softmax) {
      const auto epsilon = static_cast<double>(number("epsilon", 1e-5));
      for (int64_t r = first; r < last; ++r) {
        for (size_t k = 0; k < sums.size(); ++k) sums[k] += static_cast<double>(x.row(r)[k]);
      }
      for (double& sum : sums) sum /= count;
      std::fill(squares.begin(), squares.end(), 0.0);
      for (int64_t r = first; r < last; ++r) {
        for (size_t k = 0; k < sums.size(); ++k) {
          const double centered = static_cast<double>(x.row(r)[k]) - sums[k];
          squares[k] += centered * centered;
        }
      }
      for (double& square : squares) square = 1.0 / std::sqrt(square / count + epsilon);
      for (int64_t r = first; r < last; ++r) {
        for (size_t k = 0; k < sums.size(); ++k)
          y.row(r)[k] = static_cast<float>((static_cast<double>(x.row(r)[k]) - sums[k]) * squares[k]);
      }
      continue;
    }
    const float scale = weight(0)[0];
    std::fill(most.begin(), most.end(), -std::numeric_limits<float>::infinity());
    for (int64_t r = first; r < last; ++r) {
      for (size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], x.row(r)[k] * scale);
    }
    for (int64_t r = first; r < last; ++r) {
      for (size_t k = 0; k < most.size(); ++k) {
        const float exponential = std::exp(x.row(r)[k] * scale - most[k]);
        y.row(r)[most.size() + k] = exponential;
        sums[k] += static_cast<double>(exponential);
      }
    }
    for (int64_t r = first; r < last; ++r) {
      for (size_t k = 0; k < most.size(); ++k) {
        const float v = x.row(r)[k];
        y.row(r)[k] = v;
        y.row(r)[most.size() + k] *= v * static_cast<float>(count / sums[k]);
      }
    }
  }
  return y;
}

}  // namespace foretime::inference
