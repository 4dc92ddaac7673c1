#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace foretime::data {

/// Returns the logarithm of a ratio, as in columns.
inline double ratio(double value) { return std::log2(std::max(value, 1e-9)); }
/// Returns the logarithm of how many times a value exceeds a limit; 0 below it.
inline double log_excess(double value, double limit) { return std::max(0.0, ratio(value) - std::log2(limit)); }

/// Writes the values of a range of columns in order, or collects their names instead.
class ColumnWriter {
 public:
  explicit ColumnWriter(float* at) : at_(at) {}
  explicit ColumnWriter(std::vector<std::string>& names) : names_(&names) {}

  void put(const char* name, double value) {
    if (names_ != nullptr) names_->emplace_back(name);
    else at_[written_] = value;
    ++written_;
  }
  void put(const char* name, const char* part, double value) {
    put(names_ == nullptr ? "" : fmt::format("{}.{}", name, part).c_str(), value);
  }
  void put(const char* name, int number, const char* part, double value) {
    if (names_ == nullptr) return put("", value);
    put(fmt::format("{}{}.{}", name, number, part).c_str(), value);
  }
  int64_t written() const { return written_; }

 private:
  float* at_ = nullptr;
  std::vector<std::string>* names_ = nullptr;
  int64_t written_ = 0;
};

}  // namespace foretime::data
