
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/files/file_form.h"
#include "data/frontends/hlo/hlo_file.h"
#include "data/frontends/hlo/node_features.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/values.h"

/// Modules as XLA prints them, against the protobuf of the same modules.
namespace foretime::data {
namespace {

using ::testing::HasSubstr;
using testing::Instruction;
using testing::read_graph;
using testing::values;

// ---- Prints a module as HloModule::ToString does (hlo_instruction.cc, shape_util.cc and window_util.cc of
// openxla/xla).

std::string shape_text(const hlo::ShapeProto& shape) {
  static const std::map<int, std::string> kNames = {
      {1, "pred"}, {2, "s8"},   {3, "s16"},  {4, "s32"},  {5, "s64"},     {6, "u8"},   {7, "u16"},   {8, "u32"},
      {9, "u64"},  {10, "f16"}, {11, "f32"}, {12, "f64"}, {14, "opaque"}, {15, "c64"}, {16, "bf16"}, {17, "token"}};
  if (shape.element_type() == 13) {
    std::vector<std::string> parts;
    for (const auto& bytes : shape.tuple_shapes()) {
      hlo::ShapeProto part;
      EXPECT_TRUE(part.ParseFromString(bytes));
      parts.push_back((parts.size() % 5 == 0 && !parts.empty() ? fmt::format("/*index={}*/", parts.size()) : "") +
                      shape_text(part));
    }
    return fmt::format("({})", fmt::join(parts, ", "));
  }
  auto text = fmt::format("{}[{}]", kNames.at(shape.element_type()), fmt::join(shape.dimensions(), ","));
  if (shape.layout().minor_to_major_size() > 0)
    text += fmt::format("{{{}:T(8,128)}}", fmt::join(shape.layout().minor_to_major(), ","));
  return text;
}

template <class Field>
std::string joined(const hlo::Window& window, Field field) {
  std::vector<std::string> parts;
  for (const auto& dimension : window.dimensions()) parts.push_back(field(dimension));
  return fmt::format("{}", fmt::join(parts, "x"));
}

std::string window_text(const hlo::Window& window) {
  using D = hlo::WindowDimension;
  const auto any = [&](auto differs) { return std::ranges::any_of(window.dimensions(), differs); };
  std::string text = "size=" + joined(window, [](const D& d) { return fmt::format("{}", d.size()); });
  if (any([](const D& d) { return d.stride() != 1; }))
    text += " stride=" + joined(window, [](const D& d) { return fmt::format("{}", d.stride()); });
  if (any([](const D& d) { return d.padding_low() != 0 || d.padding_high() != 0; }))
    text +=
        " pad=" + joined(window, [](const D& d) { return fmt::format("{}_{}", d.padding_low(), d.padding_high()); });
  if (any([](const D& d) { return d.base_dilation() != 1; }))
    text += " lhs_dilate=" + joined(window, [](const D& d) { return fmt::format("{}", d.base_dilation()); });
  if (any([](const D& d) { return d.window_dilation() != 1; }))
    text += " rhs_dilate=" + joined(window, [](const D& d) { return fmt::format("{}", d.window_dilation()); });
  if (any([](const D& d) { return d.window_reversal(); }))
    text += " rhs_reversal=" + joined(window, [](const D& d) { return fmt::format("{}", int{d.window_reversal()}); });
  return text;
}

std::string labels_text(const hlo::ConvolutionDimensionNumbers& numbers) {
  const auto place = [](std::string& labels, int64_t at, char label) {
    if (std::ssize(labels) <= at) labels.resize(at + 1, '?');
    labels[at] = label;
  };
  std::string in, kernel, out;
  place(in, numbers.input_batch_dimension(), 'b');
  place(in, numbers.input_feature_dimension(), 'f');
  for (int i = 0; i < numbers.input_spatial_dimensions_size(); ++i)
    place(in, numbers.input_spatial_dimensions(i), static_cast<char>('0' + i));
  place(kernel, numbers.kernel_input_feature_dimension(), 'i');
  place(kernel, numbers.kernel_output_feature_dimension(), 'o');
  for (int i = 0; i < numbers.kernel_spatial_dimensions_size(); ++i)
    place(kernel, numbers.kernel_spatial_dimensions(i), static_cast<char>('0' + i));
  place(out, numbers.output_batch_dimension(), 'b');
  place(out, numbers.output_feature_dimension(), 'f');
  return in + "_" + kernel + "->" + out;
}

struct Names {
  std::map<int64_t, std::string> instructions, computations;
};

std::string instruction_text(const Instruction& one, const Names& names) {
  std::vector<std::string> operands;
  for (const int64_t id : one.operand_ids()) operands.push_back("%" + names.instructions.at(id));
  auto inside = fmt::format("{}", fmt::join(operands, ", "));
  if (one.opcode() == "parameter") inside = fmt::format("{}", one.parameter_number());
  if (one.opcode() == "constant") inside = "{ { 1, 2 }, /*more*/ { 3, \"}\" } }";
  auto text = fmt::format("%{} = {} {}({})", one.name(), shape_text(one.shape()), one.opcode(), inside);
  if (one.opcode() == "iota") text += fmt::format(", iota_dimension={}", fmt::join(one.dimensions(), ","));
  else if (one.dimensions_size() > 0 || one.opcode() == "broadcast" || one.opcode() == "reduce")
    text += fmt::format(", dimensions={{{}}}", fmt::join(one.dimensions(), ","));
  if (one.window().dimensions_size() > 0) text += ", window={" + window_text(one.window()) + "}";
  if (one.has_convolution_dimension_numbers() && (one.opcode() == "convolution" || one.opcode() == "custom-call"))
    text += ", dim_labels=" + labels_text(one.convolution_dimension_numbers());
  if (one.feature_group_count() > 1) text += fmt::format(", feature_group_count={}", one.feature_group_count());
  if (one.batch_group_count() > 1) text += fmt::format(", batch_group_count={}", one.batch_group_count());
  if (one.slice_dimensions_size() > 0) {
    std::vector<std::string> slices;
    for (const auto& slice : one.slice_dimensions())
      slices.push_back(slice.stride() == 1 ? fmt::format("[{}:{}]", slice.start(), slice.limit())
                                           : fmt::format("[{}:{}:{}]", slice.start(), slice.limit(), slice.stride()));
    text += fmt::format(", slice={{{}}}", fmt::join(slices, ", "));
  }
  if (one.dynamic_slice_sizes_size() > 0)
    text += fmt::format(", dynamic_slice_sizes={{{}}}", fmt::join(one.dynamic_slice_sizes(), ","));
  if (one.padding_config().dimensions_size() > 0) {
    std::vector<std::string> paddings;
    for (const auto& padding : one.padding_config().dimensions())
      paddings.push_back(fmt::format("{}_{}", padding.edge_padding_low(), padding.edge_padding_high()));
    text += fmt::format(", padding={}", fmt::join(paddings, "x"));
  }
  if (one.is_stable()) text += ", is_stable=true";
  std::vector<std::string> called;
  for (const int64_t id : one.called_computation_ids()) called.push_back("%" + names.computations.at(id));
  if (called.size() == 1) text += ", to_apply=" + called[0];
  if (called.size() == 2 && one.opcode() == "while")
    text += fmt::format(", condition={}, body={}", called[1], called[0]);
  if (called.size() == 2 && one.opcode() == "select-and-scatter")
    text += fmt::format(", select={}, scatter={}", called[0], called[1]);
  if (called.size() > 1 && one.opcode() != "while" && one.opcode() != "select-and-scatter")
    text += fmt::format(", branch_computations={{{}}}", fmt::join(called, ", "));
  return text + ", metadata={op_type=\"a, b}\" op_name=\"c\\\"d\" source_line=3}, sharding={devices=[2,1]0,1}";
}

std::string text_of(const HloSource& source, std::span<const std::string_view> pieces) {
  const auto module = outline_module(source, pieces, {});
  std::vector<Instruction> instructions;
  Names names;
  for (const auto& one : module.instructions) {
    auto& parsed = instructions.emplace_back();
    EXPECT_TRUE(parsed.ParseFromArray(one.bytes.data(), static_cast<int>(one.bytes.size())));
    names.instructions[one.id] = parsed.name();
  }
  for (const auto& one : module.computations) names.computations[one.id] = std::string(one.name);
  std::string text =
      fmt::format("HloModule {}, entry_computation_layout={{(f32[2]{{0}})->f32[2]{{0}}}}\n\n", module.name);
  for (const auto& one : module.computations) {
    const bool entry = &one == &module.computations.back();
    text += fmt::format("{}%{} (p: f32[2], q: (f32[], s32[])) -> {} {{\n", entry ? "ENTRY " : "", one.name,
                        shape_text(instructions[one.root].shape()));
    for (int64_t i = one.first; i < one.last; ++i)
      text += fmt::format("  {}{}\n", i == one.root ? "ROOT " : "", instruction_text(instructions[i], names));
    text += "}\n\n";
  }
  return text;
}

/// Expects the graph of the printed module to be that of the module, bit for bit.
void expect_equal_graphs(const HloSource& source, std::span<const std::string_view> pieces) {
  const auto text = text_of(source, pieces);
  const auto converted = hlo_text_to_proto(text, "text");
  std::vector<float> rows, text_rows;
  const auto into = [](std::vector<float>& to) {
    return [&to](std::span<const float> more, int64_t) { to.insert(to.end(), more.begin(), more.end()); };
  };
  const HloSource other{converted, "text"};
  const std::string_view whole = converted;
  const auto graph = read_module_graph(source, pieces, {}, into(rows));
  const auto again = read_module_graph(other, {&whole, 1}, {}, into(text_rows));
  EXPECT_EQ(graph.name, again.name);
  EXPECT_EQ(values(graph.graph.node_types), values(again.graph.node_types));
  EXPECT_EQ(values(graph.graph.edge_source), values(again.graph.edge_source));
  EXPECT_EQ(values(graph.graph.edge_target), values(again.graph.edge_target));
  EXPECT_EQ(graph.node_splits, again.node_splits);
  EXPECT_EQ(graph.layout_nodes, again.layout_nodes);
  ASSERT_EQ(rows.size(), text_rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    ASSERT_EQ(rows[i], text_rows[i]) << "node " << i / kHloFeatures << ", feature " << i % kHloFeatures;
}

TEST(HloText, PrintedModulesOfTpuGraphsHaveTheGraphsOfTheirProtobuf) {
  FORETIME_NEEDS_DATA();
  const auto folder = testing::data_dir() / "tpugraphs" / "pb";
  size_t modules = 0;
  for (const char* name : {"module_tuning_data_layout.pb", "op_tuning_data.pb"}) {
    const HloFile file(folder / name);
    for (const auto& module : file.modules()) {
      const auto tuning = file.outline(module);
      expect_equal_graphs(file.source(), tuning.module);
      ++modules;
    }
  }
  EXPECT_GT(modules, 1u);
}

TEST(HloText, ASmallModuleHasTheGraphOfItsProtobuf) {
  const auto module = testing::small_module();
  const std::string_view whole = module;
  HloSource source{module, "small"};
  const auto text = text_of(source, {&whole, 1});
  std::vector<float> rows, text_rows;
  const auto graph = read_graph(module, &rows), again = read_graph(hlo_text_to_proto(text, "text"), &text_rows);
  EXPECT_EQ(values(graph.graph.edge_source), values(again.graph.edge_source));
  EXPECT_EQ(values(graph.graph.node_types), values(again.graph.node_types));
}

// Forms that XLA prints: names with and without %, operands with their shapes, tables of files, tuples, loops.
constexpr const char* kPrinted = R"(// a comment
HloModule jit_step.12, is_scheduled=false, entry_computation_layout={(f32[8,4]{1,0}, (s32[], pred[]))->(f32[8,4]{1,0}, s32[])}

FileNames
1 "a.py"
StackFrames
1 {file_location_id=1 parent_frame_id=0}

region_0.1 {
  Arg_0.2 = f32[] parameter(0)
  Arg_1.3 = f32[] parameter(1)
  ROOT add.4 = f32[] add(Arg_0.2, Arg_1.3)
}

%body (t: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %t = (s32[], /*index=1*/f32[8,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element((s32[], f32[8,4]{1,0}) %t), index=0
  %x = f32[8,4]{0,1:T(8,128)S(1)} get-tuple-element(%t), index=1
  ROOT %out = (s32[], f32[8,4]{1,0}) tuple(s32[] %i, f32[8,4]{0,1:T(8,128)S(1)} %x)
}

%cond.7 (t: (s32[], f32[8,4])) -> pred[] {
  %t = (s32[], f32[8,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %c = s32[] constant(5)
  ROOT %less = pred[] compare(%i, %c), direction=LT
}, execution_thread="main"

ENTRY %main.9 (a: f32[8,4], s: (s32[], pred[])) -> (f32[8,4], s32[]) {
  %a = f32[8,4]{1,0} parameter(0), sharding={replicated}
  %k = bf16[3,3,4,16]{3,2,1,0} constant({...})
  %d = f32[<=8,4]{1,0} convert(%a), backend_config={"knob":{"a":[1,2]}}
  %p = f32[10,6]{1,0} pad(%d, f32[] constant), padding=0_2x1_1_3
  ROOT %r = f32[8]{0} reduce(%p, %a), dimensions={1}, to_apply=region_0.1, metadata={op_name="jit(f)/reduce, {"}
}
)";

TEST(HloText, FormsThatXlaPrintsAreRead) {
  std::string text = kPrinted;
  text.replace(text.find("f32[] constant), padding"), 14, "%a");
  std::vector<float> rows;
  const auto graph = read_graph(hlo_text_to_proto(text, "text"), &rows);
  EXPECT_EQ(graph.name, "jit_step.12");
  EXPECT_EQ(graph.graph.nodes(), 3 + 4 + 4 + 5);
  std::vector<std::string_view> opcodes;
  for (const uint8_t type : values(graph.graph.node_types)) opcodes.push_back(hlo_opcode_name(type));
  EXPECT_THAT(opcodes,
              ::testing::ElementsAre("parameter", "parameter", "add", "parameter", "get-tuple-element",
                                     "get-tuple-element", "tuple", "parameter", "get-tuple-element", "constant",
                                     "compare", "parameter", "constant", "convert", "pad", "reduce"));
  EXPECT_EQ(graph.node_splits, (std::vector<int64_t>{0, 11, 16}));
}

TEST(HloText, ItIsRecognisedByItsFirstWordAndReadAsAFile) {
  EXPECT_TRUE(is_hlo_text(kPrinted));
  EXPECT_FALSE(is_hlo_text("HloModules x"));
  EXPECT_FALSE(is_hlo_text("/* HloModule x"));
  EXPECT_FALSE(is_hlo_text(testing::small_module("HloModule ")));
  const testing::Scratch scratch;
  const auto module = testing::small_module();
  const std::string_view whole = module;
  const auto file = scratch.write("module.before_optimizations.txt", text_of({module, "small"}, {&whole, 1}));
  EXPECT_EQ(form_of(file), FileForm::hlo);
  const HloFile opened(file);
  EXPECT_EQ(opened.message(), HloMessage::module);
  EXPECT_EQ(opened.modules().front().name, "module.before_optimizations");
}

TEST(HloText, WhatIsWrongIsNamedWithItsLine) {
  const auto wrong = [](const std::string& body) {
    const auto text = "HloModule m\n\nENTRY %e (p: f32[2]) -> f32[2] {\n  %p = f32[2]{0} parameter(0)\n" + body + "}\n";
    EXPECT_MESSAGE(testing::message_of<DataError>([&] { hlo_text_to_proto(text, "x.txt"); }), "x.txt");
  };
  wrong("  ROOT %r = f32[2]{0} add(%p, %q)\n");
  wrong("  %r = f32[2]{0} add(%p, %p\n");
  wrong("  %r = f33[2]{0} add(%p)\n");
  wrong("  %r = f32[a]{0} add(%p)\n");
  wrong("  %r = f32[2]{0} fusion(%p), kind=kLoop, calls=%f\n");
  wrong("  ROOT %r = f32[2] add(%p)\n  ROOT %s = f32[2] add(%p)\n");
  wrong("  %p = f32[2]{0} add(%p)\n");
  wrong("  %r = f32[2]{0} custom-call-start(%p), custom_call_target=\"x\"\n");
  wrong("  %r = f32[2]{0} add(%p), metadata={op_name=\"x\n");
  EXPECT_THAT(testing::message_of<DataError>([] { hlo_text_to_proto("HloModule m\n", "x"); }),
              HasSubstr("no ENTRY computation"));
  const std::string one = "HloModule m\n\nENTRY %e {\n  %p = f32[2]{0} parameter(0)\n}\n";
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { hlo_text_to_proto(one + "\n" + one, "x"); }), "line 7");
  EXPECT_THAT(testing::message_of<DataError>([&] { hlo_text_to_proto(one + one.substr(12), "x"); }),
              HasSubstr("a second ENTRY"));
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { hlo_text_to_proto(one + "some garbage\n", "x"); }));
  EXPECT_MESSAGE(
      testing::message_of<DataError>([] { hlo_text_to_proto("HloModule m\nENTRY %e () -> f32[] {\n", "x"); }));
}

}  // namespace
}  // namespace foretime::data
