#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "data/frontends/hlo/hlo.pb.h"
#include "data/frontends/hlo/hlo_file.h"
#include "data/frontends/hlo/hlo_scanner.h"
#include "data/frontends/hlo/node_features.h"

namespace foretime::data {
namespace {

/// Names of PrimitiveType (xla_data.proto) by number; 0 has none.
constexpr auto kTypes = split_words<34>(
    " pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque c64 bf16 token c128 f8e5m2 f8e4m3fn s4 u4 "
    "f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 s1 u1 f4e2m1fn f8e8m0fnu");
constexpr int32_t kTuple = 13;
static_assert(kTypes[kTuple] == "tuple" && kTypes[16] == "bf16" && kTypes[33] == "f8e8m0fnu");

/// Attributes that name computations which an instruction calls.
constexpr auto kCalls = split_words<10>(
    "calls to_apply body condition select scatter "
    "branch_computations true_computation false_computation called_computations");

/// Tables of file and function names, to which metadata refer by number.
constexpr auto kTables = split_words<4>("FileNames FunctionNames FileLocations StackFrames");

class ModuleReader {
 public:
  ModuleReader(std::string_view text, const std::string& name) : in_(text, name) {}

  std::string read() {
    if (!in_.takes("HloModule")) in_.fail(fmt::format("found {}, expected HloModule", in_.next_text()));
    add_bytes(module_, kModuleName, in_.expect_word("the module's name"));
    in_.take_until("\n");
    while (!in_.at_end()) {
      if (begins_computation()) read_computation();
      else skip_table_line();
    }
    if (!has_entry_) in_.fail("found no ENTRY computation, expected one");
    return std::move(module_);
  }

 private:
  enum : uint32_t { kModuleName = 1, kComputations = 3 };
  enum : uint32_t { kComputationName = 1, kInstructions = 2, kComputationId = 5, kRootId = 6 };

  static void add_bytes(std::string& to, uint32_t field, std::string_view bytes) {
    google::protobuf::io::StringOutputStream stream(&to);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteVarint32(field << 3 | 2);
    out.WriteVarint64(bytes.size());
    out.WriteRaw(bytes.data(), bytes.size());
  }
  static void add_number(std::string& to, uint32_t field, uint64_t number) {
    google::protobuf::io::StringOutputStream stream(&to);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteVarint32(field << 3);
    out.WriteVarint64(number);
  }

  int64_t integer(std::string_view text, const char* what) const {
    const auto number = parse_number<int64_t>(text);
    if (!number) in_.fail(fmt::format("found {} '{}', expected an integer", what, printable_utf8(text.substr(0, 40))));
    return *number;
  }

  /// Returns whether the next line is `[ENTRY] NAME [(PARAMETERS) -> SHAPE] {`.
  bool begins_computation() {
    const auto begin = in_.position();
    const bool entry = in_.takes("ENTRY");
    const auto name = in_.take_word();
    const char next = in_.peek();
    in_.go_to(begin);
    return entry || (!name.empty() && !is_digit(name.front()) && (next == '(' || next == '{'));
  }

  /// Skips a line `FileNames` or `1 "a.py"`.
  void skip_table_line() {
    const auto word = in_.take_word();
    if (!(std::ranges::find(kTables, word) != kTables.end() && in_.peek() == '\n') &&
        (word.empty() || !is_digit(word.front())))
      in_.fail(fmt::format("found '{}', expected a computation: NAME (PARAMETERS) -> SHAPE {{, in a text of one module",
                           printable_utf8(word.empty() ? in_.next_text() : word)));
    in_.skip_line();
  }

  void read_computation() {
    if (in_.takes("ENTRY") && std::exchange(has_entry_, true))
      in_.fail("found a second ENTRY, expected one module in a text");
    const std::string name(in_.expect_word("a computation's name"));
    if (in_.peek() == '(') {
      in_.take_group();
      in_.expect('-');
      in_.expect('>');
      hlo::ShapeProto result;
      read_shape(result);
    }
    in_.expect('{');
    std::string computation;
    add_bytes(computation, kComputationName, name);
    instructions_.clear();
    int64_t root = 0, last = 0;
    while (!in_.takes_closing()) {
      const bool is_root = in_.takes("ROOT");
      if (is_root && root != 0) in_.fail("found a second ROOT, expected one in each computation");
      last = read_instruction(computation);
      if (is_root) root = last;
    }
    if (last == 0)
      in_.fail(fmt::format("computation {}: found no instructions, expected at least one", printable(name)));
    // Callees are defined before: a computation does not call itself.
    if (!computations_.emplace(name, computations_.size() + 1).second)
      in_.fail(fmt::format("found computation {} again, expected distinct names", printable(name)));
    add_number(computation, kComputationId, computations_.size());
    add_number(computation, kRootId, root != 0 ? root : last);
    add_bytes(module_, kComputations, computation);
    in_.skip_line();  // , execution_thread="…"
  }

  /// Reads `[DIMENSIONS]{LAYOUT}` after a type, or a tuple.
  void read_shape(hlo::ShapeProto& shape, int depth = 0) {
    constexpr int kDeepest = 100;
    if (depth > kDeepest) in_.fail(fmt::format("found tuples of tuples deeper than {}, which is the limit", kDeepest));
    if (in_.takes('(')) {
      shape.set_element_type(kTuple);
      while (!in_.takes(')')) {
        if (shape.tuple_shapes_size() > 0) in_.expect(',');
        hlo::ShapeProto part;
        read_shape(part, depth + 1);
        shape.add_tuple_shapes("");
      }
      return;
    }
    const auto type = in_.expect_word("the type of a shape");
    const auto* known = std::ranges::find(kTypes, type);
    if (known == kTypes.end() || known - kTypes.begin() == kTuple)
      in_.fail(fmt::format("found type '{}', expected one of XLA's, such as f32", type));
    shape.set_element_type(known - kTypes.begin());
    if (in_.peek() != '[') in_.fail(fmt::format("found {}, expected '['", in_.next_text()));
    for (auto size : in_.parts_of(in_.take_group(), ',')) {
      if (size.starts_with("<=")) size.remove_prefix(2);  // dynamic, with its bound
      shape.add_dimensions(size == "?" ? std::numeric_limits<int64_t>::min() : integer(size, "size"));
    }
    // A computation's body begins like a layout, after a blank.
    if (!in_.is_next('{')) return;
    const auto layout = in_.take_group();
    for (const auto dimension : in_.parts_of(layout.substr(0, layout.find(':')), ','))
      shape.mutable_layout()->add_minor_to_major(integer(dimension, "dimension of a layout"));
    shape.mutable_layout();
  }

  /// Reads `NAME = SHAPE OPCODE(OPERANDS), ATTRIBUTES` and returns the id of the instruction.
  int64_t read_instruction(std::string& computation) {
    hlo::HloInstructionProto instruction;
    const std::string name(in_.expect_word("an instruction's name"));
    in_.expect('=');
    read_shape(*instruction.mutable_shape());
    const std::string opcode(in_.expect_word("an opcode"));
    const bool async = opcode.ends_with("-start") || opcode.ends_with("-update") || opcode.ends_with("-done");
    if (async && hlo_opcode_number(opcode) == 0)
      in_.fail(
          fmt::format("{}: found opcode {}, the short form of an asynchronous operation without its computation, "
                      "expected the module as protobuf: XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'",
                      name, opcode));
    instruction.set_name(name);
    instruction.set_opcode(opcode);
    instruction.set_id(++instruction_count_);
    if (opcode == "convolution" || opcode == "custom-call") {
      instruction.set_feature_group_count(1);
      instruction.set_batch_group_count(1);
    }
    if (in_.peek() != '(')
      in_.fail(fmt::format("found {}, expected the operands of {} in ( and )", in_.next_text(), opcode));
    read_operands(in_.take_group(), instruction);
    while (in_.takes(',')) {
      const auto key = in_.expect_word("an attribute");
      in_.expect('=');
      read_attribute(key, in_.take_until(",\n"), instruction);
    }
    if (in_.peek() != '\n' && in_.peek() != '}')
      in_.fail(fmt::format("found {}, expected the end of the line", in_.next_text()));
    if (!instructions_.emplace(name, instruction_count_).second)
      in_.fail(fmt::format("found instruction {} again, expected distinct names in a computation", printable(name)));
    add_bytes(computation, kInstructions, instruction.SerializeAsString());
    return instruction_count_;
  }

  void read_operands(std::string_view operands, hlo::HloInstructionProto& instruction) {
    if (instruction.opcode() == "constant") return;
    if (instruction.opcode() == "parameter") {
      instruction.set_parameter_number(integer(operands, "parameter number"));
      return;
    }
    for (auto operand : in_.parts_of(operands, ',')) {
      if (const auto comment = operand.rfind("*/"); comment != std::string_view::npos)
        operand.remove_prefix(comment + 2);
      if (const auto blank = operand.find_last_of(" \t\n"); blank != std::string_view::npos)
        operand.remove_prefix(blank + 1);
      if (operand.starts_with('%')) operand.remove_prefix(1);
      const auto found = instructions_.find(std::string(operand));
      if (found == instructions_.end())
        in_.fail(fmt::format("{}: found operand '{}', expected an instruction of the same computation before it",
                             instruction.name(), printable_utf8(operand.substr(0, 80))));
      instruction.add_operand_ids(found->second);
    }
  }

  std::vector<int64_t> integers(std::string_view list, char separator, const char* what) const {
    std::vector<int64_t> found;
    for (const auto part : in_.parts_of(list, separator)) found.push_back(integer(part, what));
    return found;
  }

  void read_attribute(std::string_view key, std::string_view value, hlo::HloInstructionProto& instruction) {
    const auto list = HloScanner::inside(value, '{', '}');
    if (key == "dimensions") {
      for (const int64_t dimension : integers(list, ',', "dimension")) instruction.add_dimensions(dimension);
    } else if (key == "iota_dimension") {
      instruction.add_dimensions(integer(value, "iota_dimension"));
    } else if (key == "window") {
      read_window(list, *instruction.mutable_window());
    } else if (key == "dim_labels") {
      read_dim_labels(value, *instruction.mutable_convolution_dimension_numbers());
    } else if (key == "feature_group_count") {
      instruction.set_feature_group_count(integer(value, "feature_group_count"));
    } else if (key == "batch_group_count") {
      instruction.set_batch_group_count(integer(value, "batch_group_count"));
    } else if (key == "slice") {
      read_slices(list, instruction);
    } else if (key == "dynamic_slice_sizes") {
      for (const int64_t size : integers(list, ',', "dynamic slice size")) instruction.add_dynamic_slice_sizes(size);
    } else if (key == "padding") {
      read_padding(value, *instruction.mutable_padding_config());
    } else if (key == "is_stable") {
      instruction.set_is_stable(value == "true");
    } else if (std::ranges::find(kCalls, key) != kCalls.end()) {
      for (auto called : in_.parts_of(list, ',')) {
        if (called.starts_with('%')) called.remove_prefix(1);
        const auto found = computations_.find(std::string(called));
        if (found == computations_.end())
          in_.fail(fmt::format("{}: {}: found '{}', expected a computation that is defined before", instruction.name(),
                               key, printable_utf8(called.substr(0, 80))));
        instruction.add_called_computation_ids(found->second);
      }
    }
  }

  /// Reads `size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=2x2 rhs_dilate=1x1 rhs_reversal=1x0`.
  void read_window(std::string_view text, hlo::Window& window) {
    for (const auto part : in_.parts_of(text, ' ')) {
      if (part.empty()) continue;
      const auto equals = std::min(part.find('='), part.size());
      const auto key = part.substr(0, equals);
      const auto values = in_.parts_of(part.substr(std::min(equals + 1, part.size())), 'x');
      if (window.dimensions().empty()) {
        for (size_t d = 0; d < values.size(); ++d) {
          auto& dimension = *window.add_dimensions();
          dimension.set_stride(1);
          dimension.set_window_dilation(1);
          dimension.set_base_dilation(1);
        }
      }
      if (std::ssize(values) != window.dimensions_size())
        in_.fail(fmt::format("window: {}: found {} dimensions, expected {} as before it", key, values.size(),
                             window.dimensions_size()));
      for (int d = 0; d < window.dimensions_size(); ++d) {
        auto& dimension = *window.mutable_dimensions(d);
        if (key == "pad") {
          const auto ends = integers(values[d], '_', "window padding");
          if (ends.size() != 2) in_.fail(fmt::format("window: found padding {}, expected LOW_HIGH", values[d]));
          dimension.set_padding_low(ends[0]);
          dimension.set_padding_high(ends[1]);
          continue;
        }
        const int64_t number = integer(values[d], "window");
        if (key == "size") dimension.set_size(number);
        if (key == "stride") dimension.set_stride(number);
        if (key == "lhs_dilate") dimension.set_base_dilation(number);
        if (key == "rhs_dilate") dimension.set_window_dilation(number);
        if (key == "rhs_reversal") dimension.set_window_reversal(number != 0);
      }
    }
  }

  /// Reads `b01f_01io->b01f`: what the dimensions of input, kernel and output are. Spatial ones have numbers.
  void read_dim_labels(std::string_view text, hlo::ConvolutionDimensionNumbers& numbers) {
    const auto kernel = std::min(text.find('_'), text.size()), output = std::min(text.find("->"), text.size());
    if (kernel > output || output == text.size())
      in_.fail(
          fmt::format("dim_labels: found '{}', expected INPUT_KERNEL->OUTPUT", printable_utf8(text.substr(0, 40))));
    const auto place_in = [](std::string_view labels, char label) { return int64_t(labels.find(label)); };
    const auto spatial = [&](std::string_view labels, auto add) {
      for (char label = '0'; label <= '9' && place_in(labels, label) >= 0; ++label) add(place_in(labels, label));
    };
    const auto needed = [&](std::string_view labels, char label) {
      if (place_in(labels, label) < 0)
        in_.fail(fmt::format("dim_labels: found '{}', expected {} among it", labels, label));
      return place_in(labels, label);
    };
    const auto in = text.substr(0, kernel), weights = text.substr(kernel + 1, output - kernel - 1),
               out = text.substr(output + 2);
    numbers.set_input_batch_dimension(needed(in, 'b'));
    numbers.set_input_feature_dimension(needed(in, 'f'));
    spatial(in, [&](int64_t place) { numbers.add_input_spatial_dimensions(place); });
    numbers.set_kernel_input_feature_dimension(needed(weights, 'i'));
    numbers.set_kernel_output_feature_dimension(needed(weights, 'o'));
    spatial(weights, [&](int64_t place) { numbers.add_kernel_spatial_dimensions(place); });
    numbers.set_output_batch_dimension(needed(out, 'b'));
    numbers.set_output_feature_dimension(needed(out, 'f'));
  }

  /// Reads `[0:10], [2:8:2]`: start, limit and stride of each dimension.
  void read_slices(std::string_view text, hlo::HloInstructionProto& instruction) {
    for (const auto part : in_.parts_of(text, ',')) {
      const auto numbers = integers(HloScanner::inside(part, '[', ']'), ':', "slice");
      if (numbers.size() < 2 || numbers.size() > 3)
        in_.fail(
            fmt::format("slice: found '{}', expected [START:LIMIT] or [START:LIMIT:STRIDE]", printable_utf8(part)));
      auto& slice = *instruction.add_slice_dimensions();
      slice.set_start(numbers[0]);
      slice.set_limit(numbers[1]);
      slice.set_stride(numbers.size() > 2 ? numbers[2] : 1);
    }
  }

  /// Reads `0_1x2_3_1`: low, high and, where it is not 0, interior padding of each dimension.
  void read_padding(std::string_view text, hlo::PaddingConfig& padding) {
    for (const auto part : in_.parts_of(text, 'x')) {
      const auto numbers = integers(part, '_', "padding");
      if (numbers.size() < 2) in_.fail(fmt::format("padding: found '{}', expected LOW_HIGH", printable_utf8(part)));
      auto& dimension = *padding.add_dimensions();
      dimension.set_edge_padding_low(numbers[0]);
      dimension.set_edge_padding_high(numbers[1]);
    }
  }

  HloScanner in_;
  std::string module_;
  std::map<std::string, int64_t> computations_;  // ids by name
  std::map<std::string, int64_t> instructions_;  // ids by name, in the current computation
  int64_t instruction_count_ = 0;
  bool has_entry_ = false;
};

}  // namespace

bool is_hlo_text(std::string_view start) {
  static const std::string kNoName;
  const auto is_binary = [](char c) { return c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r'; };
  if (std::ranges::any_of(start.substr(0, 4096), is_binary)) return false;
  if (start.find("HloModule") == std::string_view::npos) return false;
  try {
    return HloScanner(start, kNoName).takes("HloModule");
  } catch (const DataError&) {
    return false;  // a comment without an end
  }
}

std::string hlo_text_to_proto(std::string_view text, const std::string& name) {
  return ModuleReader(text, name).read();
}

}  // namespace foretime::data
