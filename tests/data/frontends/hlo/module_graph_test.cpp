#include "data/frontends/hlo/module_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "data/frontends/hlo/node_features.h"
#include "data/graphs/schema.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/values.h"

/// Graphs of modules: nodes, edges, splits, and a reference implementation over random modules.
namespace foretime::data {
namespace {

using testing::computation;
using testing::instruction;
using testing::Instruction;
using testing::module_of;
using testing::read_graph;
using testing::values;
using Edges = std::vector<std::pair<int32_t, int32_t>>;  // consumer, producer

Edges edges_of(const HloGraph& graph) {
  Edges edges;
  for (int64_t e = 0; e < graph.graph.edges(); ++e)
    edges.emplace_back(graph.graph.edge_target[e], graph.graph.edge_source[e]);
  return edges;
}

TEST(ModuleGraph, OperandsAndCalleesAreEdges) {
  std::vector<float> rows;
  const HloGraph graph = read_graph(testing::small_module(), &rows);
  EXPECT_EQ(graph.name, "small");
  EXPECT_EQ(values(graph.graph.node_types), (std::vector<uint8_t>{63, 63, 2, 63, 26, 34, 75, 70, 2}));
  // Operands that are given twice are one edge; the callee's root is node 2.
  EXPECT_EQ(edges_of(graph),
            (Edges{{2, 0}, {2, 1}, {4, 3}, {5, 3}, {5, 4}, {6, 5}, {7, 2}, {7, 5}, {7, 6}, {8, 3}, {8, 7}}));
  EXPECT_EQ(graph.layout_nodes, (std::vector<int32_t>{4, 5, 6}));
  EXPECT_EQ(graph.node_splits, (std::vector<int64_t>{0, 9}));
  ASSERT_EQ(rows.size(), 9u * kHloFeatures);
  for (size_t node = 0; node < 9; ++node)
    EXPECT_EQ(rows[node * kHloFeatures], node == 2 || node == 8 ? 1.0f : 0.0f) << "is_root of " << node;
}

TEST(ModuleGraph, SplitsEndWithLoopsAndClusters) {
  const auto one = [](const char* name, int64_t id) {
    return computation(name, id, id, {instruction(id, "constant")});
  };
  EXPECT_EQ(
      read_graph(module_of({one("add", 1), one("my_while_body.3", 2), one("x", 3), one("cluster_0", 4)})).node_splits,
      (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(read_graph(module_of({one("is_cond", 1), one("x", 3)})).node_splits, (std::vector<int64_t>{0, 1, 2}));
}

TEST(ModuleGraph, UnknownOpcodesHaveTypeZero) {
  const HloGraph graph = read_graph(module_of({computation(
      "main", 1, 3, {instruction(1, "erf"), instruction(2, "ragged-dot", {1}), instruction(3, "erf", {2})})}));
  EXPECT_EQ(values(graph.graph.node_types), (std::vector<uint8_t>{0, 0, 0}));
}

TEST(ModuleGraph, UnreadFieldsAreSkipped) {
  Instruction plain = instruction(1, "constant");
  const std::string literal(1 << 20, 'x');
  const auto with = [&](const std::string& extra) {
    return module_of({testing::bytes_field(1, "main") + testing::bytes_field(2, plain.SerializeAsString() + extra) +
                      testing::number_field(5, 1) + testing::number_field(6, 1)});
  };
  std::vector<float> rows, more;
  read_graph(with(""), &rows);
  read_graph(with(testing::bytes_field(8, literal) + testing::number_field(77, 5) + testing::varint(90 << 3 | 5) +
                  "abcd" + testing::varint(91 << 3 | 1) + "abcdefgh"),
             &more);
  EXPECT_EQ(rows, more);
}

hlo::ConvolutionDimensionNumbers* add_convolution(Instruction& to) {
  auto* numbers = to.mutable_convolution_dimension_numbers();
  numbers->set_input_batch_dimension(1);
  numbers->set_input_feature_dimension(2);
  numbers->set_kernel_input_feature_dimension(3);
  numbers->set_kernel_output_feature_dimension(4);
  numbers->set_output_batch_dimension(5);
  numbers->set_output_feature_dimension(6);
  return numbers;
}

void add_slice(Instruction& to, int64_t start, int64_t stride, int64_t limit) {
  auto* slice = to.add_slice_dimensions();
  slice->set_start(start);
  slice->set_stride(stride);
  slice->set_limit(limit);
}

void add_padding(Instruction& to, int64_t low, int64_t high) {
  auto* padding = to.mutable_padding_config()->add_dimensions();
  padding->set_edge_padding_low(low);
  padding->set_edge_padding_high(high);
}

/// `parts`: size, stride, low and high padding, window and base dilation.
void add_window(Instruction& to, const std::array<int64_t, 6>& parts, bool reversal) {
  auto* window = to.mutable_window()->add_dimensions();
  window->set_size(parts[0]);
  window->set_stride(parts[1]);
  window->set_padding_low(parts[2]);
  window->set_padding_high(parts[3]);
  window->set_window_dilation(parts[4]);
  window->set_base_dilation(parts[5]);
  window->set_window_reversal(reversal);
}

/// Every field that features are made of gets through the choice of fields that are parsed.
TEST(ModuleGraph, ReadFieldsAreNotSkipped) {
  Instruction full = instruction(1, "sort", {}, {2, 3, 4, 5, 6, 7});
  full.set_parameter_number(9);
  full.set_feature_group_count(8);
  full.set_batch_group_count(4);
  full.set_is_stable(true);
  full.mutable_shape()->add_tuple_shapes("");
  auto* numbers = add_convolution(full);
  for (int64_t i = 2; i < 8; ++i) {
    full.add_dimensions(i);
    full.add_dynamic_slice_sizes(i);
    full.mutable_shape()->mutable_layout()->add_minor_to_major(i);
    numbers->add_input_spatial_dimensions(i);
    numbers->add_kernel_spatial_dimensions(i);
    add_slice(full, i, i, i);
    add_padding(full, i, i);
    add_window(full, {i, i, i, i, i, i}, true);
  }
  std::vector<float> rows, expected(kHloFeatures), empty(kHloFeatures);
  read_graph(module_of({computation("main", 1, 1, {full})}), &rows);
  ASSERT_EQ(node_features(full, true, expected.data()), "");
  EXPECT_EQ(rows, expected);
  ASSERT_EQ(node_features({}, false, empty.data()), "");
  int64_t as_empty = 0;
  for (size_t i = 0; i < empty.size(); ++i) as_empty += empty[i] == expected[i];
  EXPECT_EQ(as_empty, 19);  // element_size_in_bits, 17 element types, the windows that are not reversed
}

TEST(ModuleGraph, AMessageMayComeInPieces) {
  const std::string whole = testing::small_module();
  const HloSource source{whole, "test.pb"};
  // After the two names, and between the computations.
  WireReader reader(source, whole);
  std::vector<std::string_view> pieces;
  for (WireField field; reader.next(field);) pieces.push_back(field.whole);
  ASSERT_EQ(pieces.size(), 4u);
  const HloGraph graph = read_module_graph(source, pieces, {});
  EXPECT_EQ(edges_of(graph), edges_of(read_graph(whole)));
}

/// What the reader must make of a random module, from the lists that it was built from.
TEST(ModuleGraph, RandomModulesEqualTheReference) {
  std::mt19937 random(11);
  const auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> computations;
    std::vector<int64_t> ids(600);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 7) - 1000;
    std::ranges::shuffle(ids, random);
    std::vector<int64_t> roots;  // node of each computation
    std::vector<float> rows;
    Edges edges;
    int32_t node = 0;
    for (size_t c = 0; c < 1 + below(5); ++c) {
      const int32_t first = node;
      std::vector<Instruction> instructions;
      const size_t count = 1 + below(100), root = below(count);
      for (size_t i = 0; i < count; ++i, ++node) {
        Instruction made = instruction(ids[static_cast<size_t>(node)], "add", {}, {static_cast<int64_t>(below(9))});
        std::set<int32_t> producers;
        for (size_t k = below(4); k > 0 && i > 0; --k) {
          const auto operand = first + static_cast<int32_t>(below(i));
          made.add_operand_ids(ids[static_cast<size_t>(operand)]);
          producers.insert(operand);
        }
        if (c > 0 && below(5) == 0) {
          const size_t callee = below(c);
          made.add_called_computation_ids(static_cast<int64_t>(1000 + callee));
          producers.insert(static_cast<int32_t>(roots[callee]));
        }
        for (const int32_t producer : producers) edges.emplace_back(node, producer);
        rows.resize(rows.size() + kHloFeatures);
        ASSERT_EQ(node_features(made, i == root, rows.data() + rows.size() - kHloFeatures), "");
        instructions.push_back(made);
      }
      roots.push_back(first + static_cast<int64_t>(root));
      computations.push_back(
          computation("c", static_cast<int64_t>(1000 + c), ids[static_cast<size_t>(roots.back())], instructions));
    }
    std::vector<float> read_rows;
    const HloGraph graph = read_graph(module_of(computations), &read_rows);
    ASSERT_EQ(edges_of(graph), edges);
    ASSERT_EQ(read_rows, rows);
  }
}

/// A chain of `nodes` instructions in about ten bytes each.
std::string chain(int64_t nodes) {
  std::string body = testing::bytes_field(1, "c");
  for (int64_t i = 0; i < nodes; ++i) {
    std::string one = testing::bytes_field(2, "add") + testing::number_field(35, static_cast<uint64_t>(i));
    if (i > 0) one += testing::bytes_field(36, testing::varint(static_cast<uint64_t>(i - 1)));
    body += testing::bytes_field(2, one);
  }
  return testing::bytes_field(1, "bomb") + testing::bytes_field(3, body + testing::number_field(6, 0));
}

TEST(ModuleGraph, AMillionNodesAreRefusedByTheLimit) {
  const std::string bomb = chain(1'000'000);
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { read_graph(bomb); }), "test.pb: module bomb");
}

TEST(ModuleGraph, AMillionNodesAreReadWhereTheyAreAllowed) {
  const std::string bomb = chain(1'000'000);
  const HloSource source{bomb, "test.pb"};
  const std::string_view piece = bomb;
  int64_t rows = 0;
  size_t largest = 0;
  const HloGraph graph =
      read_module_graph(source, {&piece, 1}, {.nodes = 1'000'000}, [&](auto piece_of_rows, int64_t columns) {
        rows += static_cast<int64_t>(piece_of_rows.size()) / columns;
        largest = std::max(largest, piece_of_rows.size());
      });
  EXPECT_EQ(rows, 1'000'000);
  EXPECT_LE(largest, 1024u * kHloFeatures);  // features never stand in memory together
  EXPECT_EQ(graph.graph.edges(), 999'999);
}

TEST(ModuleGraph, EdgesHaveALimit) {
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { read_graph(chain(100), nullptr, {.nodes = 100, .edges = 50}); }),
                 "test.pb: module bomb");
}

}  // namespace

// Each family of node features, by the names of the columns.

namespace {

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
  for (const int64_t i : {1, 2}) add_window(made, {2 + i, 4 + i, -i, 6 + i, 8 + i, 10 + i}, i == 2);
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
  auto* numbers = add_convolution(made);
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
    add_slice(made, i, i + 1, i + 10);
    made.add_dynamic_slice_sizes(i + 20);
    add_padding(made, -i, i + 30);
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
  EXPECT_MESSAGE(node_features(negative, false, row.data()));
  Instruction large = testing::instruction(1, "add", {}, {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_MESSAGE(node_features(large, false, row.data()));
  Instruction window;
  for (int i = 0; i < 3; ++i) window.mutable_window()->add_dimensions()->set_stride(int64_t{1} << 62);
  EXPECT_MESSAGE(node_features(window, false, row.data()));
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
