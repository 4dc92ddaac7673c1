#include "configs/bounds.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::configs {

bool Bound::allows(double value) const {
  if (low_open ? value <= low : value < low) return false;
  return high_open ? value < high : value <= high;
}

bool Bound::allows(const std::string& value) const {
  if (filled && value.empty()) return false;
  return names.empty() || std::find(names.begin(), names.end(), value) != names.end();
}

bool Bound::allows(const std::vector<std::string>& values) const {
  if (filled && values.empty()) return false;
  return std::all_of(values.begin(), values.end(), [this](const std::string& value) { return allows(value); });
}

std::string Bound::text() const {
  if (!names.empty()) return fmt::format("one {}of {}", filled ? "or more " : "", fmt::join(names, ", "));
  if (filled) return "not empty";
  if (std::isfinite(low) && std::isfinite(high)) {
    return fmt::format("in {}{}, {}{}", low_open ? '(' : '[', low, high, high_open ? ')' : ']');
  }
  if (std::isfinite(low)) return fmt::format("{} {}", low_open ? ">" : ">=", low);
  return "";
}

Bound above(double low) { return {.low = low, .low_open = true}; }
Bound at_least(double low) { return {.low = low}; }
Bound between(double low, double high) { return {.low = low, .high = high}; }
Bound above_up_to(double low, double high) { return {.low = low, .high = high, .low_open = true}; }
Bound from_to_below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
Bound one_of(std::vector<std::string> names) { return {.names = std::move(names)}; }
Bound some_of(std::vector<std::string> names) { return {.names = std::move(names), .filled = true}; }
Bound not_empty() { return {.filled = true}; }

}  // namespace foretime::configs
