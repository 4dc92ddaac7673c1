#include "data/frontends/hlo/node_features.h"

#include <array>

#include "base/text.h"
#include "data/frontends/hlo/hlo.pb.h"

namespace foretime::data {
namespace {

constexpr size_t kCount = 121;  // number 0 included

/// Names by their numbers; that of 0 is empty.
constexpr auto kByNumber = split_words<kCount>(
    " abs add add-dependency after-all all-reduce all-to-all atan2 batch-norm-grad batch-norm-inference "
    "batch-norm-training bitcast bitcast-convert broadcast call ceil cholesky clamp collective-permute "
    "count-leading-zeros compare complex concatenate conditional constant convert convolution copy copy-done "
    "copy-start cosine custom-call divide domain dot dynamic-slice dynamic-update-slice exponential "
    "exponential-minus-one fft floor fusion gather get-dimension-size set-dimension-size get-tuple-element imag infeed "
    "iota is-finite log log-plus-one and not or xor map maximum minimum multiply negate outfeed pad parameter "
    "partition-id popcnt power real recv recv-done reduce reduce-precision reduce-window remainder replica-id reshape "
    "reverse rng rng-get-and-update-state rng-bit-generator round-nearest-afz rsqrt scatter select select-and-scatter "
    "send send-done shift-left shift-right-arithmetic shift-right-logical sign sine slice sort sqrt subtract tanh "
    "trace transpose triangular-solve tuple tuple-select while cbrt all-gather collective-permute-start "
    "collective-permute-done logistic dynamic-reshape all-reduce-start all-reduce-done reduce-scatter all-gather-start "
    "all-gather-done opt-barrier async-start async-update async-done round-nearest-even stochastic-convert tan");
static_assert(kByNumber[26] == "convolution" && kByNumber[75] == "reshape" && kByNumber[120] == "tan");

using Entry = std::pair<std::string_view, uint8_t>;

std::array<Entry, kCount - 1> sorted_by_name() {
  std::array<Entry, kCount - 1> entries;
  for (size_t number = 1; number < kCount; ++number)
    entries[number - 1] = {kByNumber[number], static_cast<uint8_t>(number)};
  std::ranges::sort(entries);
  return entries;
}

/// Values of PrimitiveType in xla_data.proto, in the order of their columns, of which they have one each. Types that
/// came later (4-bit integers, 8-bit floats) have none.
constexpr std::array<int32_t, 19> kElementTypes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 15, 18, 13, 14, 17};

void write_shape(FeatureRow& row, const hlo::ShapeProto& shape) {
  for (const int32_t type : kElementTypes) row.number(shape.element_type() == type);
  for (const int64_t size : shape.dimensions())
    if (size < 0) row.fail(fmt::format("its shape has a size of {}, expected 0 or more", size));
  row.totals("sizes", shape.dimensions(), 6);
  row.number(shape.tuple_shapes_size());
}

void write_window(FeatureRow& row, const hlo::Window& window) {
  using Dimension = hlo::WindowDimension;
  const auto& dimensions = window.dimensions();
  row.totals("window sizes", dimensions, 6, [](const Dimension& d) { return d.size(); });
  row.totals("window strides", dimensions, 6, [](const Dimension& d) { return d.stride(); });
  row.totals("low window paddings", dimensions, 6, [](const Dimension& d) { return d.padding_low(); });
  row.totals("high window paddings", dimensions, 6, [](const Dimension& d) { return d.padding_high(); });
  row.totals("window dilations", dimensions, 6, [](const Dimension& d) { return d.window_dilation(); });
  row.totals("base dilations", dimensions, 6, [](const Dimension& d) { return d.base_dilation(); });
  int64_t reversed = 0;
  for (int i = 0; i < 6; ++i) row.number(i < dimensions.size() && dimensions.Get(i).window_reversal());
  for (const Dimension& d : dimensions) reversed += d.window_reversal();
  row.number(reversed);
  row.number(dimensions.size() - reversed);
}

void write_convolution(FeatureRow& row, const hlo::ConvolutionDimensionNumbers& numbers) {
  row.number(numbers.input_batch_dimension());
  row.number(numbers.input_feature_dimension());
  row.values(numbers.input_spatial_dimensions(), 4);
  row.number(numbers.kernel_input_feature_dimension());
  row.number(numbers.kernel_output_feature_dimension());
  row.values(numbers.kernel_spatial_dimensions(), 4);
  row.number(numbers.output_batch_dimension());
  row.number(numbers.output_feature_dimension());
}

void write_slices(FeatureRow& row, const hlo::HloInstructionProto& instruction) {
  using Slice = hlo::HloInstructionProto::SliceDimensions;
  const auto& slices = instruction.slice_dimensions();
  row.totals("slice starts", slices, 2, [](const Slice& s) { return s.start(); });
  row.totals("slice strides", slices, 2, [](const Slice& s) { return s.stride(); });
  row.totals("slice limits", slices, 2, [](const Slice& s) { return s.limit(); });
  row.totals("dynamic slice sizes", instruction.dynamic_slice_sizes(), 2);
}

void write_padding(FeatureRow& row, const hlo::PaddingConfig& padding) {
  using Dimension = hlo::PaddingConfig::Dimension;
  row.totals("low paddings", padding.dimensions(), 2, [](const Dimension& d) { return d.edge_padding_low(); });
  row.totals("high paddings", padding.dimensions(), 2, [](const Dimension& d) { return d.edge_padding_high(); });
}

}  // namespace

uint8_t hlo_opcode_number(std::string_view name) {
  static const auto entries = sorted_by_name();
  const auto found = std::ranges::lower_bound(entries, Entry{name, 0});
  return found != entries.end() && found->first == name ? found->second : 0;
}

std::string_view hlo_opcode_name(uint8_t number) { return number < kCount ? kByNumber[number] : std::string_view(); }

bool has_layout_choice(uint8_t number) {
  const std::string_view name = hlo_opcode_name(number);
  return name == "convolution" || name == "dot" || name == "reshape";
}

std::string node_features(const hlo::HloInstructionProto& instruction, bool is_root, float* to) {
  FeatureRow row(to);
  row.number(is_root);
  row.number(0);  // element_size_in_bits
  write_shape(row, instruction.shape());
  row.number(instruction.parameter_number());
  row.values(instruction.dimensions(), 6);
  write_window(row, instruction.window());
  write_convolution(row, instruction.convolution_dimension_numbers());
  row.number(instruction.feature_group_count());
  row.number(instruction.batch_group_count());
  write_slices(row, instruction);
  write_padding(row, instruction.padding_config());
  row.number(instruction.is_stable());
  row.values(instruction.shape().layout().minor_to_major(), 6);
  return row.wrong();
}

}  // namespace foretime::data
