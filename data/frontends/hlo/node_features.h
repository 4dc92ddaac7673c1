#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace foretime::hlo {
class HloInstructionProto;
}

namespace foretime::data {

/// Writes a row of features one after another like TpuGraphs' extractor; node_features() has the rules.
class FeatureRow {
 public:
  explicit FeatureRow(float* row) : at_(row) {}

  /// Returns the first fault that fail() was given; empty if there was none.
  const std::string& wrong() const { return wrong_; }
  /// Records a fault; only the first one is kept.
  void fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  void number(int64_t value) { *at_++ = value; }  // writes one value, rounded to a float

  /// Writes the first `columns` values of a list, padded with 0 to `columns`.
  template <class List>
  void values(const List& list, int columns) {
    const int given = std::min<int>(columns, list.size());
    for (int i = 0; i < given; ++i) number(list.Get(i));
    for (int i = given; i < columns; ++i) number(0);
  }

  /// Writes the first `columns` values that `value` returns for a list's items, padded with 0 to `columns`, then the
  /// sum and the product of the values of all items. The product of an empty list is `empty_product`. A sum or product
  /// beyond 64 bits is a fault, which names the values `name`.
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
  /// Writes the values of a list of integers as totals() above does; the product of an empty list is 1.
  template <class List>
  void totals(const char* name, const List& list, int columns) {
    totals(name, list, columns, [](int64_t v) { return v; });
  }

 private:
  float* at_;
  std::string wrong_;
};

/// Returns TpuGraphs' number (`node_opcode`) of the HLO opcode `name`, 1 … 120 in the order of TpuGraphs' table
/// (tpu_graphs/process_data/xla/hlo_opcode.h); 0 for names that the table lacks.
uint8_t hlo_opcode_number(std::string_view name);

/// Returns the HLO opcode with TpuGraphs' number `number`; empty for 0 and for numbers above 120.
std::string_view hlo_opcode_name(uint8_t number);

/// Returns whether a number is that of convolution, dot or reshape: TpuGraphs' collections give layouts to these.
bool has_layout_choice(uint8_t number);

/// Writes TpuGraphs' 140 node features of one instruction to `row` (feature_names in data/graphs/schema.h has their
/// names and order), like the data set's extractor (tpu_graphs/process_data/xla/featurizers.h):
/// - lists are cut or padded with 0 to the number of their columns; sums and products cover all of their values, and an
///   empty list has sum 0 and product 1;
/// - missing properties are 0, element_size_in_bits always;
/// - 64-bit integers are rounded to floats last.
///
/// Returns the first fault of the instruction, empty if it has none: a shape with a negative size, or a sum or product
/// that does not fit 64 bits. The data set's extractor lets such sums and products wrap around.
[[nodiscard]] std::string node_features(const hlo::HloInstructionProto& instruction, bool is_root, float* row);

}  // namespace foretime::data
