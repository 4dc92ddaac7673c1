#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace foretime::data {

/// Writes features one after another, as TpuGraphs' extractor does: node_features.h has the rules.
class FeatureRow {
 public:
  explicit FeatureRow(float* row) : at_(row) {}

  /// The first thing that was wrong; empty where nothing was.
  const std::string& wrong() const { return wrong_; }
  void fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  void number(int64_t value) { *at_++ = static_cast<float>(value); }

  /// The first `columns` values of a list.
  template <class List>
  void values(const List& list, int columns) {
    const int given = std::min(columns, static_cast<int>(list.size()));
    for (int i = 0; i < given; ++i) number(list.Get(i));
    for (int i = given; i < columns; ++i) number(0);
  }

  /// The first `columns` values that `value` makes of a list's items, then sum and product of all of them. `name` is
  /// for messages, `empty_product` the product of no values.
  template <class List, class Value>
  void totals(const char* name, const List& list, int columns, Value value, int64_t empty_product = 1) {
    int64_t sum = 0, product = list.empty() ? empty_product : 1;
    int given = 0;
    for (const auto& item : list) {
      const int64_t v = value(item);
      if (given < columns) {
        number(v);
        ++given;
      }
      if (__builtin_add_overflow(sum, v, &sum) || __builtin_mul_overflow(product, v, &product))
        fail(fmt::format("sum or product of its {} takes more than 64 bits", name));
    }
    for (; given < columns; ++given) number(0);
    number(sum);
    number(product);
  }
  template <class List>
  void totals(const char* name, const List& list, int columns) {
    totals(name, list, columns, [](int64_t v) { return v; });
  }

 private:
  float* at_;
  std::string wrong_;
};

}  // namespace foretime::data
