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

/// Writes features one after another like TpuGraphs' extractor; node_features() has the rules.
class FeatureRow {
 public:
  explicit FeatureRow(float* row) : at_(row) {}

  /// Returns the first fault; empty if there was none.
  const std::string& wrong() const { return wrong_; }
  void fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  void number(int64_t value) { *at_++ = value; }

  /// Writes the first `columns` values of a list, padded with 0.
  template <class List>
  void values(const List& list, int columns) {
    const int given = std::min<int>(columns, list.size());
    for (int i = 0; i < given; ++i) number(list.Get(i));
    for (int i = given; i < columns; ++i) number(0);
  }

  /// Writes the first `columns` values that `value` returns for a list's items, then sum and product of all of them.
  /// `name` is for messages, `empty_product` the product of no values.
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

/// Returns TpuGraphs' number of an HLO opcode (`node_opcode`): XLA's names in the order in which the data set's authors
/// met them (tpu_graphs/process_data/xla/hlo_opcode.h), 1 … 120; 0 for all later opcodes.
uint8_t hlo_opcode_number(std::string_view name);

/// Returns the name of an opcode number; empty for 0 and for unknown numbers.
std::string_view hlo_opcode_name(uint8_t number);

/// Returns whether TpuGraphs' layout collections give instructions of this opcode a layout: convolution, dot and
/// reshape.
bool has_layout_choice(uint8_t number);

/// Writes TpuGraphs' 140 node features of one instruction to `row` (feature_names in data/graphs/schema.h has their
/// names and order), like the data set's extractor (tpu_graphs/process_data/xla/featurizers.h):
/// - lists are cut or padded with 0 to the number of their columns; sums and products cover all of their values, and an
///   empty list has sum 0 and product 1;
/// - missing properties are 0, element_size_in_bits always;
/// - 64-bit integers are rounded to floats last.
///
/// Returns the fault of an instruction, empty if it has none: a shape with a negative size, or a sum or product that
/// does not fit 64 bits. The data set's extractor lets those wrap around.
[[nodiscard]] std::string node_features(const hlo::HloInstructionProto& instruction, bool is_root, float* row);

}  // namespace foretime::data
