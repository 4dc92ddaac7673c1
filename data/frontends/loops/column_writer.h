#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace foretime::data {

/// Returns log2 of a ratio, which is taken as at least 1e-9.
inline double ratio(double value) { return std::log2(std::max(value, 1e-9)); }
/// Returns log2 of value / limit; 0 for values up to the limit, which must be above 0.
inline double log_excess(double value, double limit) { return std::max(0.0, ratio(value) - std::log2(limit)); }

/// Writes the values of a range of columns in order, or collects the columns' names instead.
class ColumnWriter {
 public:
  explicit ColumnWriter(float* at) : at_(at) {}                               // writes values from `at` on
  explicit ColumnWriter(std::vector<std::string>& names) : names_(&names) {}  // appends names only

  /// Writes the next column, which has the name `name`.
  void put(const char* name, double value) {
    if (names_ != nullptr) names_->emplace_back(name);
    else at_[written_] = value;
    ++written_;
  }
  /// Writes the next column, which has the name `name`.`part`.
  void put(const char* name, const char* part, double value) {
    put(names_ == nullptr ? "" : fmt::format("{}.{}", name, part).c_str(), value);
  }
  /// Writes the next column, which has the name `name` `number`.`part`, such as inner0.extent.
  void put(const char* name, int number, const char* part, double value) {
    if (names_ == nullptr) return put("", value);
    put(fmt::format("{}{}.{}", name, number, part).c_str(), value);
  }
  int64_t written() const { return written_; }  // number of columns so far

 private:
  float* at_ = nullptr;
  std::vector<std::string>* names_ = nullptr;
  int64_t written_ = 0;
};

}  // namespace foretime::data
