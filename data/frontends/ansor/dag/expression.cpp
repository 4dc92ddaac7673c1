#include "data/frontends/ansor/dag/expression.h"

#include <array>

#include <fmt/format.h>

#include "base/numbers.h"
#include "base/text.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

struct Operator {
  std::string_view symbol, printed;
  Kind kind;
  int precedence;
};

// Longer symbols first, so that `<=` is not read as `<`.
constexpr Operator kOperators[] = {
    {"||", " || ", Kind::logical_or, 1},    {"&&", " && ", Kind::logical_and, 2}, {"==", " == ", Kind::equal, 3},
    {"!=", " != ", Kind::not_equal, 3},     {"<=", " <= ", Kind::less_equal, 3},  {"<", " < ", Kind::less, 3},
    {">=", " >= ", Kind::greater_equal, 3}, {">", " > ", Kind::greater, 3},       {"+", " + ", Kind::add, 4},
    {"-", " - ", Kind::subtract, 4},        {"*", "*", Kind::multiply, 5},        {"/", "/", Kind::divide, 5},
    {"%", " % ", Kind::modulo, 5},
};

struct Function {
  std::string_view name;
  Kind kind;
  size_t arguments;
};

constexpr Function kFunctions[] = {
    {"floordiv", Kind::floor_divide, 2}, {"floormod", Kind::floor_modulo, 2}, {"min", Kind::minimum, 2},
    {"max", Kind::maximum, 2},           {"select", Kind::select, 3},
};

/// `float32`, `int64`, `bool`, `float32x4`: calls of these are casts.
bool is_type_name(std::string_view name) {
  constexpr std::string_view kTypes[] = {"float", "int", "uint", "bool", "bfloat", "handle"};
  for (const auto type : kTypes) {
    if (!name.starts_with(type)) continue;
    const auto rest = name.substr(type.size());
    if (rest.find_first_not_of("0123456789x_") == std::string_view::npos) return true;
  }
  return false;
}

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Parser {
 public:
  Parser(std::string_view text, ExpressionTree& tree) : text_(text), tree_(tree) {}

  int32_t parse() {
    const int32_t root = binary(1);
    skip_blanks();
    if (position_ != text_.size()) fail("the end");
    return root;
  }

 private:
  static constexpr int kDepth = 800;  // each parenthesis costs two

  [[noreturn]] void fail(std::string_view expected) const {
    constexpr size_t kShown = 60;
    throw DataError("expression '{}{}': at character {}: {}, expected {}", text_.substr(0, kShown),
                    text_.size() > kShown ? "..." : "", position_,
                    position_ < text_.size() ? fmt::format("'{}'", text_.substr(position_, 12)) : "the end", expected);
  }

  void skip_blanks() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool at(char c) const { return position_ < text_.size() && text_[position_] == c; }
  bool take(char c) {
    skip_blanks();
    if (!at(c)) return false;
    ++position_;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(fmt::format("'{}'", c));
  }

  int32_t binary(int precedence) {
    enter();
    int32_t left = unary();
    while (true) {
      skip_blanks();
      const auto* found = std::ranges::find_if(kOperators, [this](const Operator& candidate) {
        return text_.substr(position_).starts_with(candidate.symbol);
      });
      if (found == std::end(kOperators) || found->precedence < precedence) break;
      position_ += found->symbol.size();
      const std::array children = {left, binary(found->precedence + 1)};
      left = tree_.add(found->kind, {}, children);
      if (tree_.node(left).depth > kDepth) fail("a shorter chain of operators");
    }
    --depth_;
    return left;
  }

  void enter() {
    if (++depth_ > kDepth) fail(fmt::format("at most {} nested parentheses", kDepth / 2));
  }

  int32_t unary() {
    enter();
    const int32_t id = value();
    --depth_;
    return id;
  }

  int32_t value() {
    skip_blanks();
    if (position_ == text_.size()) fail("a value");
    const char c = text_[position_];
    if (c == '!') {
      ++position_;
      const std::array child = {unary()};
      return tree_.add(Kind::logical_not, {}, child);
    }
    if (c == '(') return parenthesis();
    if (c == '"') return quoted();
    if (is_digit(c) || c == '-' || c == '.') return number();
    if (starts_name(c)) return named();
    fail("a value");
  }

  /// `(expression)`, or `(int64)5`, a literal of that type.
  int32_t parenthesis() {
    ++position_;
    const size_t start = position_;
    while (position_ < text_.size() && (starts_name(text_[position_]) || is_digit(text_[position_]))) ++position_;
    const auto type = text_.substr(start, position_ - start);
    if (at(')') && is_type_name(type) && position_ + 1 < text_.size() &&
        (is_digit(text_[position_ + 1]) || text_[position_ + 1] == '-')) {
      ++position_;
      const std::array child = {number()};
      return tree_.add(Kind::cast, type, child);
    }
    position_ = start;
    const int32_t inner = binary(1);
    need(')');
    return inner;
  }

  int32_t quoted() {
    const size_t end = text_.find('"', position_ + 1);
    if (end == std::string_view::npos) fail("a closing quote");
    const auto content = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return tree_.add(Kind::text, content, {});
  }

  /// `12`, `-3`, `1.5f`, `3.40282e+38f`, `-inff`.
  int32_t number() {
    const size_t start = position_;
    if (at('-')) ++position_;
    if (position_ < text_.size() && !is_digit(text_[position_]) && text_[position_] != '.' && text_[position_] != 'i') {
      // A sign before something that is no literal.
      const std::array children = {tree_.add_integer(0), unary()};
      return tree_.add(Kind::subtract, {}, children);
    }
    bool real = false;
    while (position_ < text_.size()) {
      const char c = text_[position_];
      const bool exponent_sign =
          (c == '+' || c == '-') && position_ > start && (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E');
      if (!is_digit(c)) {
        if (!exponent_sign && std::string_view(".eEfhinf").find(c) == std::string_view::npos) break;
        real = true;
      }
      ++position_;
    }
    const auto literal = text_.substr(start, position_ - start);
    if (real) return tree_.add(Kind::real, literal, {});
    const auto value = parse_number<int64_t>(literal);
    if (!value) {
      position_ = start;
      fail("an integer of 64 bits");
    }
    return tree_.add_integer(*value);
  }

  std::vector<int32_t> arguments(char closing) {
    std::vector<int32_t> list;
    if (take(closing)) return list;
    do list.push_back(binary(1));
    while (take(','));
    need(closing);
    return list;
  }

  int32_t named() {
    const size_t start = position_;
    while (position_ < text_.size() &&
           (starts_name(text_[position_]) || is_digit(text_[position_]) || text_[position_] == '.'))
      ++position_;
    const auto name = text_.substr(start, position_ - start);
    if (at('[')) {
      ++position_;
      return tree_.add(Kind::load, name, arguments(']'));
    }
    if (!at('(')) return tree_.add(Kind::variable, name, {});
    ++position_;
    const auto list = arguments(')');
    for (const auto& function : kFunctions)
      if (function.name == name && function.arguments == list.size()) return tree_.add(function.kind, {}, list);
    return tree_.add(is_type_name(name) && list.size() == 1 ? Kind::cast : Kind::call, name, list);
  }

  std::string_view text_;
  ExpressionTree& tree_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

std::span<const int32_t> ExpressionTree::children(int32_t id) const {
  const Node& parent = node(id);
  return std::span(children_).subspan(parent.first_child, parent.children);
}

int32_t ExpressionTree::add_integer(int64_t value) {
  nodes_.push_back({.kind = ExpressionKind::integer, .value = value});
  return std::ssize(nodes_) - 1;
}

int32_t ExpressionTree::add(ExpressionKind kind, std::string_view name, std::span<const int32_t> children) {
  Node added;
  added.kind = kind;
  added.first_child = children_.size();
  added.children = children.size();
  children_.insert(children_.end(), children.begin(), children.end());
  if (!name.empty() || kind == Kind::text) {
    added.name = names_.size();
    names_.emplace_back(name);
  }
  for (const int32_t child : children) added.depth = std::max(added.depth, node(child).depth + 1);
  nodes_.push_back(added);
  return std::ssize(nodes_) - 1;
}

int32_t parse_expression(std::string_view text, ExpressionTree& tree) { return Parser(text, tree).parse(); }

std::string to_text(const ExpressionTree& tree, int32_t root, std::span<const std::string> axis_names,
                    std::span<const std::string> stage_names) {
  const auto& node = tree.node(root);
  const auto print = [&](int32_t id) { return to_text(tree, id, axis_names, stage_names); };
  const auto child = [&](size_t i) { return print(tree.child(root, i)); };
  const auto list = [&] {
    std::vector<std::string> printed;
    for (const int32_t one : tree.children(root)) printed.push_back(print(one));
    return fmt::format("{}", fmt::join(printed, ", "));
  };
  const auto named = [&](std::span<const std::string> names) {
    const size_t target = node.target;
    return node.target >= 0 && target < names.size() ? names[target] : tree.name(root);
  };
  if (node.kind == Kind::integer) return std::to_string(node.value);
  if (node.kind == Kind::variable) return named(axis_names);
  if (node.kind == Kind::real) return tree.name(root);
  if (node.kind == Kind::text) return '"' + tree.name(root) + '"';
  if (node.kind == Kind::logical_not) return '!' + child(0);
  if (node.kind == Kind::load) {
    const bool tensor = node.value > 0 && node.target >= 0 && node.target < std::ssize(stage_names);
    return fmt::format("{}{}[{}]", named(stage_names), tensor ? fmt::format(".v{}", node.value - 1) : "", list());
  }
  if (node.kind == Kind::cast && tree.node(tree.child(root, 0)).kind == Kind::integer)
    return fmt::format("({}){}", tree.name(root), child(0));
  if (node.kind == Kind::cast || node.kind == Kind::call) return fmt::format("{}({})", tree.name(root), list());
  const auto* function = std::ranges::find(kFunctions, node.kind, &Function::kind);
  if (function != std::end(kFunctions)) return fmt::format("{}({})", function->name, list());
  return fmt::format("({}{}{})", child(0), std::ranges::find(kOperators, node.kind, &Operator::kind)->printed,
                     child(1));
}

}  // namespace foretime::data
