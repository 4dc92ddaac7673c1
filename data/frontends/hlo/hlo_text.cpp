#include "data/frontends/hlo/hlo_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "data/frontends/hlo/hlo.pb.h"
#include "data/frontends/hlo/node_features.h"

namespace foretime::data {
namespace {

/// Names of PrimitiveType (xla_data.proto) in texts, with their numbers.
constexpr std::array<std::pair<std::string_view, int32_t>, 34> kTypeNames = {{{"pred", 1},        {"s8", 2},
                                                                              {"s16", 3},         {"s32", 4},
                                                                              {"s64", 5},         {"u8", 6},
                                                                              {"u16", 7},         {"u32", 8},
                                                                              {"u64", 9},         {"f16", 10},
                                                                              {"f32", 11},        {"f64", 12},
                                                                              {"opaque", 14},     {"c64", 15},
                                                                              {"bf16", 16},       {"token", 17},
                                                                              {"c128", 18},       {"f8e5m2", 19},
                                                                              {"f8e4m3fn", 20},   {"s4", 21},
                                                                              {"u4", 22},         {"f8e4m3b11fnuz", 23},
                                                                              {"f8e5m2fnuz", 24}, {"f8e4m3fnuz", 25},
                                                                              {"s2", 26},         {"u2", 27},
                                                                              {"f8e4m3", 28},     {"f8e3m4", 29},
                                                                              {"s1", 30},         {"u1", 31},
                                                                              {"f4e2m1fn", 32},   {"f8e8m0fnu", 33},
                                                                              {"buffer", 34},     {"opaque_type", 14}}};
constexpr int32_t kTuple = 13;

/// Attributes that name computations which an instruction calls.
constexpr std::array<std::string_view, 10> kCalls = {"calls",
                                                     "to_apply",
                                                     "body",
                                                     "condition",
                                                     "select",
                                                     "scatter",
                                                     "branch_computations",
                                                     "true_computation",
                                                     "false_computation",
                                                     "called_computations"};

bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; }

/// Reads the characters of a module one after another.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  [[noreturn]] void fail(const std::string& what) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, std::min(at_, text_.size())), '\n');
    throw DataError("{}: line {}: {}", name_, line, what);
  }
  /// Returns the next characters for a message.
  std::string next_text() const {
    const auto rest = text_.substr(at_, text_.substr(at_).find('\n')).substr(0, 40);
    return rest.empty() ? "the end" : "'" + printable_utf8(rest) + "'";
  }

  /// Skips blanks and comments, and ends of lines unless `in_line`.
  void skip_blanks(bool in_line = false) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && !in_line)) {
        ++at_;
      } else if (text_.substr(at_, 2) == "/*") {
        const auto end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) fail("found a comment that does not end");
        at_ = end + 2;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  /// Returns the next character after blanks within the line; '\n' at the end of the line or of the text.
  char peek() {
    skip_blanks(true);
    return at_ < text_.size() ? text_[at_] : '\n';
  }
  bool takes(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  /// Takes the } that ends a computation. Throws DataError at the end of the text.
  bool takes_closing() {
    if (at_end()) fail("found the end, expected } after the last instruction");
    if (text_[at_] != '}') return false;
    ++at_;
    return true;
  }
  /// Returns whether the next character, without any blanks before it, is `c`.
  bool is_next(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool takes(std::string_view word) {
    skip_blanks();
    const auto end = at_ + word.size();
    if (text_.substr(at_, word.size()) != word || (end < text_.size() && is_word(text_[end]))) return false;
    at_ = end;
    return true;
  }
  void expect(char c) {
    if (!takes(c)) fail(fmt::format("found {}, expected '{}'", next_text(), c));
  }
  /// Takes a word of letters, digits, _, - and . with an optional % before it; "" if there is none.
  std::string_view take_word() {
    peek();
    if (at_ < text_.size() && text_[at_] == '%') ++at_;
    const auto begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::string_view expect_word(const char* what) {
    const auto word = take_word();
    if (word.empty()) fail(fmt::format("found {}, expected {}", next_text(), what));
    return word;
  }
  /// Takes text up to a character of `ends` outside of brackets and quotes; that character remains.
  std::string_view take_until(std::string_view ends) {
    const auto begin = at_;
    std::string open;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (open.empty() && ends.find(c) != std::string_view::npos) break;
      if (c == '"') {
        skip_quoted();
      } else if (c == '(' || c == '[' || c == '{') {
        open += c == '(' ? ')' : c == '[' ? ']' : '}';
      } else if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c)
          fail(
              fmt::format("found {}, expected {}", c, open.empty() ? ends.substr(0, 1) : open.substr(open.size() - 1)));
        open.pop_back();
      }
    }
    if (!open.empty()) fail(fmt::format("found the end, expected {}", open.back()));
    return text_.substr(begin, at_ - begin);
  }
  /// Takes the group of brackets that begins here and returns what is inside.
  std::string_view take_group() {
    const auto begin = at_;
    const char close = text_[at_] == '(' ? ')' : text_[at_] == '[' ? ']' : '}';
    ++at_;
    const auto contents = take_until({&close, 1});
    if (at_ >= text_.size()) {
      at_ = begin;
      fail(fmt::format("found {}, expected its closing bracket", next_text()));
    }
    ++at_;
    return contents;
  }
  /// Skips the rest of the line.
  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }
  size_t position() const { return at_; }
  void go_to(size_t position) { at_ = position; }
  const std::string& name() const { return name_; }

 private:
  /// Moves to the closing quote.
  void skip_quoted() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    if (at_ >= text_.size()) fail("found a quoted text that does not end");
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

/// Splits text at a separator outside of brackets and quotes; parts have no blanks at their ends.
std::vector<std::string_view> parts_of(std::string_view text, char separator, const Scanner& whole) {
  std::vector<std::string_view> parts;
  Scanner scanner(text, whole.name());
  while (!text.empty()) {
    auto part = scanner.take_until({&separator, 1});
    scanner.go_to(scanner.position() + 1);
    const auto first = part.find_first_not_of(" \t\r\n"), last = part.find_last_not_of(" \t\r\n");
    parts.push_back(first == std::string_view::npos ? "" : part.substr(first, last - first + 1));
    if (scanner.position() > text.size()) break;
  }
  return parts;
}

/// Returns a text without one pair of brackets around it.
std::string_view inside(std::string_view text, char open, char close) {
  return text.size() >= 2 && text.front() == open && text.back() == close ? text.substr(1, text.size() - 2) : text;
}

class ModuleReader {
 public:
  ModuleReader(std::string_view text, const std::string& name) : in_(text, name) {}

  std::string read() {
    if (!in_.takes("HloModule")) in_.fail(fmt::format("found {}, expected HloModule", in_.next_text()));
    add_bytes(module_, kModuleName, in_.expect_word("the module's name"));
    in_.take_until("\n");
    while (!in_.at_end()) {
      if (!begins_computation()) {
        in_.skip_line();  // tables of files and functions, to which metadata refer
        continue;
      }
      read_computation();
    }
    if (computations_.empty()) in_.fail("found no computation, expected at least one");
    return std::move(module_);
  }

 private:
  enum : uint32_t { kModuleName = 1, kComputations = 3 };
  enum : uint32_t { kComputationName = 1, kInstructions = 2, kComputationId = 5, kRootId = 6 };

  static void add_varint(std::string& to, uint64_t value) {
    for (; value >= 0x80; value >>= 7) to += char(value | 0x80);
    to += char(value);
  }
  static void add_bytes(std::string& to, uint32_t field, std::string_view bytes) {
    add_varint(to, field << 3 | 2);
    add_varint(to, bytes.size());
    to += bytes;
  }
  static void add_number(std::string& to, uint32_t field, uint64_t number) {
    add_varint(to, field << 3);
    add_varint(to, number);
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

  void read_computation() {
    in_.takes("ENTRY");
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
    const auto* known = std::ranges::find(kTypeNames, type, [](const auto& entry) { return entry.first; });
    if (known == kTypeNames.end()) in_.fail(fmt::format("found type '{}', expected one of XLA's, such as f32", type));
    shape.set_element_type(known->second);
    if (in_.peek() != '[') in_.fail(fmt::format("found {}, expected '['", in_.next_text()));
    for (auto size : parts_of(in_.take_group(), ',', in_)) {
      if (size.starts_with("<=")) size.remove_prefix(2);  // dynamic, with its bound
      shape.add_dimensions(size == "?" ? std::numeric_limits<int64_t>::min() : integer(size, "size"));
    }
    // A computation's body begins like a layout, after a blank.
    if (!in_.is_next('{')) return;
    const auto layout = in_.take_group();
    for (const auto dimension : parts_of(layout.substr(0, layout.find(':')), ',', in_))
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
    for (auto operand : parts_of(operands, ',', in_)) {
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
    for (const auto part : parts_of(list, separator, in_)) found.push_back(integer(part, what));
    return found;
  }

  void read_attribute(std::string_view key, std::string_view value, hlo::HloInstructionProto& instruction) {
    const auto list = inside(value, '{', '}');
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
      for (auto called : parts_of(list, ',', in_)) {
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
    for (const auto part : parts_of(text, ' ', in_)) {
      if (part.empty()) continue;
      const auto equals = std::min(part.find('='), part.size());
      const auto key = part.substr(0, equals);
      const auto values = parts_of(part.substr(std::min(equals + 1, part.size())), 'x', in_);
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
    for (const auto part : parts_of(text, ',', in_)) {
      const auto numbers = integers(inside(part, '[', ']'), ':', "slice");
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
    for (const auto part : parts_of(text, 'x', in_)) {
      const auto numbers = integers(part, '_', "padding");
      if (numbers.size() < 2) in_.fail(fmt::format("padding: found '{}', expected LOW_HIGH", printable_utf8(part)));
      auto& dimension = *padding.add_dimensions();
      dimension.set_edge_padding_low(numbers[0]);
      dimension.set_edge_padding_high(numbers[1]);
    }
  }

  Scanner in_;
  std::string module_;
  std::map<std::string, int64_t> computations_;  // ids by name
  std::map<std::string, int64_t> instructions_;  // ids by name, in the current computation
  int64_t instruction_count_ = 0;
};

}  // namespace

bool is_hlo_text(std::string_view start) {
  static const std::string kNoName;
  const auto is_binary = [](char c) { return c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r'; };
  if (std::ranges::any_of(start.substr(0, 4096), is_binary)) return false;
  Scanner scanner(start, kNoName);
  return start.find("HloModule") != std::string_view::npos && scanner.takes("HloModule");
}

std::string hlo_text_to_proto(std::string_view text, const std::string& name) {
  return ModuleReader(text, name).read();
}

}  // namespace foretime::data
