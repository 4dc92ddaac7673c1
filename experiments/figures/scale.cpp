#include "experiments/figures/scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace foretime::figures {
namespace {

constexpr double kMargin = 0.05;                        // of the range, at each end
constexpr double kPixelsPerTick = 45;                   // labels of neighbouring ticks stay apart
constexpr double kLargest = 1e300, kSmallest = 1e-300;  // beyond: differences of such values may not be finite

}  // namespace

void Range::include(double value, bool log) {
  if (!std::isfinite(value) || std::abs(value) > kLargest || (log && value < kSmallest)) return;
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

Scale::Scale(const Axis& axis, const Range& range, double from, double to)
    : axis_(axis), low_(range.low), high_(range.high), from_(from), to_(to) {
  if (range.empty) {
    low_ = axis.log ? 0.1 : 0;
    high_ = 1;
  }
  if (axis.log) {
    const double wide = high_ > low_ * 1.001 ? std::pow(high_ / low_, kMargin) : 1.3;
    low_ /= wide;
    high_ *= wide;
    return;
  }
  const double size = high_ - low_;
  const double wide = size > 1e-9 * std::abs(high_) ? kMargin * size : std::max(0.5, 0.1 * std::abs(high_));
  low_ -= wide;
  high_ += wide;
}

double Scale::at(double value) const {
  if (!std::isfinite(value) || (axis_.log && value <= 0)) return std::numeric_limits<double>::quiet_NaN();
  const double part = axis_.log ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + part * (to_ - from_);
}

std::vector<double> Scale::linear_steps(int about) const {
  std::vector<double> values;
  for (; values.size() < 2; ++about) {
    const double raw = (high_ - low_) / about, power = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
      if (factor * power >= raw) {
        step = factor * power;
        break;
      }
    }
    values.clear();
    for (double k = std::ceil(low_ / step); k * step <= high_ && values.size() < 100; ++k) values.push_back(k * step);
  }
  return values;
}

std::vector<double> Scale::log_steps(int about) const {
  const int first = static_cast<int>(std::floor(std::log10(low_)));
  const int last = static_cast<int>(std::ceil(std::log10(high_)));
  const auto steps = [&](const std::vector<double>& digits, int every) {
    std::vector<double> values;
    for (int power = first; power <= last; power += every) {
      for (const double digit : digits) {
        const double value = digit * std::pow(10.0, power);
        if (value >= low_ && value <= high_) values.push_back(value);
      }
    }
    return values;
  };
  std::vector<double> best;  // powers of ten, as few as there is room for
  for (int every = std::max(1, (last - first) / about); every > 0 && best.size() < 2; --every) best = steps({1}, every);
  for (const std::vector<double>& digits :
       {std::vector<double>{1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}, {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9}}) {
    const auto finer = steps(digits, 1);
    const bool too_many = finer.size() > static_cast<size_t>(about) && best.size() >= 2;
    if (best.size() >= 4 || best.size() >= static_cast<size_t>(about) || too_many) break;
    best = finer;
  }
  return best.size() >= 2 ? best : linear_steps(about);
}

std::string Scale::label(double value, int digits) const {
  if (std::abs(value) < 1e-12 * std::max(std::abs(low_), std::abs(high_))) value = 0;
  if (axis_.percent) return fmt::format("{:.{}g} %", 100 * value, digits);
  const double size = std::abs(value);
  return size >= 1e4 && size < 1e6 ? fmt::format("{:.{}g}", value, std::max(digits, 6))
                                   : fmt::format("{:.{}g}", value, digits);
}

std::vector<Tick> Scale::ticks() const {
  auto values = axis_.ticks;
  if (values.empty()) {
    const int about = std::clamp(static_cast<int>(std::abs(to_ - from_) / kPixelsPerTick), 2, 10);
    values = axis_.log ? log_steps(about) : linear_steps(about);
  }
  std::erase_if(values, [&](double value) { return !(value >= low_ && value <= high_); });
  // As many digits as it takes to tell neighbours apart.
  std::vector<Tick> ticks;
  for (int digits = 4; digits <= 16; ++digits) {
    ticks.clear();
    for (const double value : values) ticks.push_back({value, label(value, digits)});
    const auto same = [](const Tick& a, const Tick& b) { return a.label == b.label; };
    if (std::adjacent_find(ticks.begin(), ticks.end(), same) == ticks.end()) break;
  }
  return ticks;
}

}  // namespace foretime::figures
