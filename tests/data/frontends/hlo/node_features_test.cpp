/// Each family of node features, by the names of the columns.
#include "data/frontends/hlo/node_features.h"

#include <array>
#include <map>

#include <gtest/gtest.h>

#include "data/frontends/hlo/hlo_opcodes.h"
#include "data/graphs/schema.h"
#include "tests/data/frontends/hlo/messages.h"

namespace foretime::data {
namespace {

using testing::Instruction;
using Columns = std::map<std::string, float>;

Columns columns_of(const Instruction& instruction, bool is_root = false) {
  std::array<float, kHloFeatures> row;
  row.fill(-1234.0f);
  EXPECT_EQ(node_features(instruction, is_root, row.data()), "");
  const auto& names = feature_names(CandidateKind::layout);
  Columns columns;
  for (size_t i = 0; i < row.size(); ++i) columns[names[i]] = row[i];
  return columns;
}

/// Those columns that are not as in an instruction without anything.
Columns changed(const Instruction& instruction, bool is_root = false) {
  const Columns empty = columns_of({});
  Columns result;
  for (const auto& [name, value] : columns_of(instruction, is_root)) {
    if (value != empty.at(name)) result[name] = value;
  }
  return result;
}

TEST(NodeFeatures, NothingIsZeroButProductsAndTheInvalidType) {
  size_t ones = 0;
  for (const auto& [name, value] : columns_of({})) {
    const bool one = name.ends_with("_product") || name == "shape_element_type_is_invalid_type";
    EXPECT_EQ(value, one ? 1.0f : 0.0f) << name;
    ones += one;
  }
  EXPECT_EQ(ones, 14u);
}

TEST(NodeFeatures, Scalars) {
  Instruction made;
  made.set_parameter_number(5);
  made.set_feature_group_count(8);
  made.set_batch_group_count(4);
  made.set_is_stable(true);
  const Columns expected = {
      {"is_root", 1}, {"parameter_number", 5}, {"feature_group_count", 8}, {"batch_group_count", 4}, {"is_stable", 1}};
  EXPECT_EQ(changed(made, true), expected);
}

TEST(NodeFeatures, EachElementTypeHasItsColumn) {
  // Numbers of PrimitiveType in xla_data.proto.
  const std::map<int32_t, std::string> types = {
      {1, "pred"},   {2, "s8"},           {3, "s16"},  {4, "s32"},   {5, "s64"},    {6, "u8"},
      {7, "u16"},    {8, "u32"},          {9, "u64"},  {10, "f16"},  {11, "f32"},   {12, "f64"},
      {13, "tuple"}, {14, "opaque_type"}, {15, "c64"}, {16, "bf16"}, {17, "token"}, {18, "c128"}};
  for (const auto& [number, name] : types) {
    Instruction made;
    made.mutable_shape()->set_element_type(number);
    const Columns expected = {{"shape_element_type_is_" + name, 1}, {"shape_element_type_is_invalid_type", 0}};
    EXPECT_EQ(changed(made), expected) << number;
  }
  Instruction later;
  later.mutable_shape()->set_element_type(20);  // F8E4M3FN
  EXPECT_EQ(changed(later), (Columns{{"shape_element_type_is_invalid_type", 0}}));
}

TEST(NodeFeatures, Shapes) {
  Instruction made;
  for (const int64_t size : {2, 3, 1, 5, 7, 11, 13}) made.mutable_shape()->add_dimensions(size);
  const Columns expected = {{"shape_dimensions_0", 2},    {"shape_dimensions_1", 3},
                            {"shape_dimensions_2", 1},    {"shape_dimensions_3", 5},
                            {"shape_dimensions_4", 7},    {"shape_dimensions_5", 11},
                            {"shape_dimensions_sum", 42}, {"shape_dimensions_product", 30030}};
  EXPECT_EQ(changed(made), expected);

  Instruction empty;
  for (const int64_t size : {0, 3}) empty.mutable_shape()->add_dimensions(size);
  const Columns none = {{"shape_dimensions_1", 3}, {"shape_dimensions_sum", 3}, {"shape_dimensions_product", 0}};
  EXPECT_EQ(changed(empty), none);

  Instruction large;  // rounded as a whole, not factor by factor
  for (const int64_t size : {16777217, 3}) large.mutable_shape()->add_dimensions(size);
  EXPECT_EQ(changed(large).at("shape_dimensions_product"), static_cast<float>(int64_t{16777217} * 3));
}

TEST(NodeFeatures, TuplesAndLayouts) {
  Instruction made;
  for (int i = 0; i < 3; ++i) made.mutable_shape()->add_tuple_shapes("\x10\x0b");
  for (const int64_t dimension : {3, 2, 0, 1, 4, 5, 6})
    made.mutable_shape()->mutable_layout()->add_minor_to_major(dimension);
  const Columns expected = {{"shape_tuple_shapes_size", 3}, {"layout_minor_to_major_0", 3},
                            {"layout_minor_to_major_1", 2}, {"layout_minor_to_major_3", 1},
                            {"layout_minor_to_major_4", 4}, {"layout_minor_to_major_5", 5}};
  EXPECT_EQ(changed(made), expected);
}

TEST(NodeFeatures, Dimensions) {
  Instruction made;
  for (const int64_t dimension : {6, 5, 4, 3, 2, 1, 9}) made.add_dimensions(dimension);
  const Columns expected = {{"dimensions_0", 6}, {"dimensions_1", 5}, {"dimensions_2", 4},
                            {"dimensions_3", 3}, {"dimensions_4", 2}, {"dimensions_5", 1}};
  EXPECT_EQ(changed(made), expected);
}

TEST(NodeFeatures, Windows) {
  Instruction made;
  for (const int64_t i : {1, 2}) {
    auto* dimension = made.mutable_window()->add_dimensions();
    dimension->set_size(2 + i);
    dimension->set_stride(4 + i);
    dimension->set_padding_low(-i);
    dimension->set_padding_high(6 + i);
    dimension->set_window_dilation(8 + i);
    dimension->set_base_dilation(10 + i);
    dimension->set_window_reversal(i == 2);
  }
  Columns expected = {{"window_window_reversal_1", 1},
                      {"window_window_reversal_true_count", 1},
                      {"window_window_reversal_false_count", 1}};
  const std::map<std::string, std::array<float, 2>> parts = {
      {"size", {3, 4}},         {"stride", {5, 6}},           {"padding_low", {-1, -2}},
      {"padding_high", {7, 8}}, {"window_dilation", {9, 10}}, {"base_dilation", {11, 12}}};
  for (const auto& [part, values] : parts) {
    expected["window_" + part + "_0"] = values[0];
    expected["window_" + part + "_1"] = values[1];
    expected["window_" + part + "_sum"] = values[0] + values[1];
    expected["window_" + part + "_product"] = values[0] * values[1];
  }
  EXPECT_EQ(changed(made), expected);

  // Beyond the columns, values count in sums, products and counts.
  Instruction seven;
  for (int i = 0; i < 7; ++i) seven.mutable_window()->add_dimensions()->set_window_reversal(i == 6);
  const Columns all = changed(seven);
  EXPECT_EQ(all.at("window_window_reversal_true_count"), 1);
  EXPECT_EQ(all.at("window_window_reversal_false_count"), 6);
  EXPECT_EQ(all.count("window_window_reversal_5"), 0u);
}

TEST(NodeFeatures, Convolutions) {
  Instruction made;
  auto* numbers = made.mutable_convolution_dimension_numbers();
  numbers->set_input_batch_dimension(1);
  numbers->set_input_feature_dimension(2);
  numbers->set_kernel_input_feature_dimension(3);
  numbers->set_kernel_output_feature_dimension(4);
  numbers->set_output_batch_dimension(5);
  numbers->set_output_feature_dimension(6);
  for (const int64_t d : {7, 8, 9, 10, 11}) numbers->add_input_spatial_dimensions(d);
  for (const int64_t d : {12, 13}) numbers->add_kernel_spatial_dimensions(d);
  const std::string prefix = "convolution_dim_numbers_";
  const Columns expected = {{prefix + "input_batch_dim", 1},          {prefix + "input_feature_dim", 2},
                            {prefix + "kernel_input_feature_dim", 3}, {prefix + "kernel_output_feature_dim", 4},
                            {prefix + "output_batch_dim", 5},         {prefix + "output_feature_dim", 6},
                            {prefix + "input_spatial_dims_0", 7},     {prefix + "input_spatial_dims_1", 8},
                            {prefix + "input_spatial_dims_2", 9},     {prefix + "input_spatial_dims_3", 10},
                            {prefix + "kernel_spatial_dims_0", 12},   {prefix + "kernel_spatial_dims_1", 13}};
  EXPECT_EQ(changed(made), expected);
}

TEST(NodeFeatures, SlicesAndPaddings) {
  Instruction made;
  for (const int64_t i : {1, 2, 3}) {
    auto* slice = made.add_slice_dimensions();
    slice->set_start(i);
    slice->set_stride(i + 1);
    slice->set_limit(i + 10);
    made.add_dynamic_slice_sizes(i + 20);
    auto* padding = made.mutable_padding_config()->add_dimensions();
    padding->set_edge_padding_low(-i);
    padding->set_edge_padding_high(i + 30);
  }
  const std::map<std::string, std::array<int, 3>> lists = {{"slice_dims_start", {1, 2, 3}},
                                                           {"slice_dims_stride", {2, 3, 4}},
                                                           {"slice_dims_limit", {11, 12, 13}},
                                                           {"dynamic_slice_sizes", {21, 22, 23}},
                                                           {"padding_config_edge_padding_low", {-1, -2, -3}},
                                                           {"padding_config_edge_padding_high", {31, 32, 33}}};
  Columns expected;
  for (const auto& [name, v] : lists) {
    expected[name + "_0"] = static_cast<float>(v[0]);
    expected[name + "_1"] = static_cast<float>(v[1]);
    expected[name + "_sum"] = static_cast<float>(v[0] + v[1] + v[2]);
    expected[name + "_product"] = static_cast<float>(v[0] * v[1] * v[2]);
  }
  EXPECT_EQ(changed(made), expected);
}

TEST(NodeFeatures, WhatCannotBeComputed) {
  std::array<float, kHloFeatures> row;
  Instruction negative = testing::instruction(1, "add", {}, {3, -2});
  EXPECT_EQ(node_features(negative, false, row.data()), "its shape has a size of -2, expected 0 or more");
  Instruction large = testing::instruction(1, "add", {}, {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_EQ(node_features(large, false, row.data()), "sum or product of its sizes takes more than 64 bits");
  Instruction window;
  for (int i = 0; i < 3; ++i) window.mutable_window()->add_dimensions()->set_stride(int64_t{1} << 62);
  EXPECT_EQ(node_features(window, false, row.data()), "sum or product of its window strides takes more than 64 bits");
}

TEST(HloOpcodes, NumbersAreTpuGraphs) {
  const std::map<std::string, int> some = {{"abs", 1},    {"broadcast", 13}, {"constant", 24},  {"convolution", 26},
                                           {"dot", 34},   {"fusion", 41},    {"parameter", 63}, {"reshape", 75},
                                           {"trace", 97}, {"tuple", 100},    {"while", 102},    {"tan", 120}};
  for (const auto& [name, number] : some) EXPECT_EQ(hlo_opcode_number(name), number) << name;
  for (int number = 1; number <= 120; ++number) {
    const auto name = hlo_opcode_name(static_cast<uint8_t>(number));
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(hlo_opcode_number(name), number) << name;
  }
  for (const char* name : {"", "erf", "ABS", "add ", "zzz"}) EXPECT_EQ(hlo_opcode_number(name), 0) << name;
  EXPECT_EQ(hlo_opcode_name(0), "");
  EXPECT_EQ(hlo_opcode_name(121), "");
  EXPECT_TRUE(has_layout_choice(26) && has_layout_choice(34) && has_layout_choice(75));
  EXPECT_FALSE(has_layout_choice(0) || has_layout_choice(27));
}

}  // namespace
}  // namespace foretime::data
