#include "configs/values.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foretime::configs {
namespace {

std::string expected(const std::string& found, const std::string& what) {
  return fmt::format("found {}, expected {}", found, what);
}

std::string describe(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Sequence:
      return fmt::format("a list of {}", node.size());
    case YAML::NodeType::Map:
      return "a map";
    case YAML::NodeType::Scalar:
      return fmt::format("{}'{}'", node.Tag() == "!" ? "the quoted string " : "", node.Scalar());
    default:
      return "nothing";
  }
}

/// The scalar's text, for numbers and booleans, which quotes turn into strings.
std::string plain_text(const YAML::Node& node, const char* type) {
  if (!node.IsScalar() || node.Tag() == "!") throw ValueError{expected(describe(node), type)};
  return node.Scalar();
}

template <class Number>
void read_number(const YAML::Node& node, Number& value, const char* type) {
  const std::string text = plain_text(node, type);
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') ++begin;  // YAML allows the sign, from_chars does not
  Number parsed{};
  const auto [stop, error] = std::from_chars(begin, end, parsed);
  if (error == std::errc::result_out_of_range && stop == end) {
    if constexpr (std::is_integral_v<Number>) {
      using Limits = std::numeric_limits<Number>;
      throw ValueError{expected(describe(node), fmt::format("{} from {} to {}", type, Limits::min(), Limits::max()))};
    }
    throw ValueError{expected(describe(node), "a number that a double holds")};
  }
  if (error != std::errc() || stop != end) throw ValueError{expected(describe(node), type)};
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(parsed)) throw ValueError{expected(describe(node), "a finite number")};
  }
  value = parsed;
}

std::string string_of(const YAML::Node& node, const char* type) {
  if (node.IsNull()) throw ValueError{expected("nothing", fmt::format("{} (\"\" for an empty one)", type))};
  if (!node.IsScalar()) throw ValueError{expected(describe(node), type)};
  return node.Scalar();
}

void read(const YAML::Node& node, bool& value, const char* type) {
  const std::string text = plain_text(node, type);
  if (text != "true" && text != "false") throw ValueError{expected(describe(node), type)};
  value = text == "true";
}

void read(const YAML::Node& node, int64_t& value, const char* type) { read_number(node, value, type); }
void read(const YAML::Node& node, uint64_t& value, const char* type) { read_number(node, value, type); }
void read(const YAML::Node& node, double& value, const char* type) { read_number(node, value, type); }
void read(const YAML::Node& node, std::string& value, const char* type) { value = string_of(node, type); }

void read(const YAML::Node& node, std::vector<std::string>& value, const char* type) {
  if (node.IsScalar()) {
    value = {node.Scalar()};
    return;
  }
  if (!node.IsSequence()) throw ValueError{expected(node.IsNull() ? "nothing" : describe(node), type)};
  std::vector<std::string> items;
  for (const YAML::Node& item : node) items.push_back(string_of(item, "a string in each place of the list"));
  value = std::move(items);
}

constexpr const char* name_of(const bool&) { return "true or false"; }
constexpr const char* name_of(const int64_t&) { return "an integer"; }
constexpr const char* name_of(const uint64_t&) { return "an integer that is not negative"; }
constexpr const char* name_of(const double&) { return "a number"; }
const char* name_of(const std::string&) { return "a string"; }
const char* name_of(const std::vector<std::string>&) { return "a list of strings"; }

std::string write(bool value) { return value ? "true" : "false"; }
std::string write(int64_t value) { return fmt::format("{}", value); }
std::string write(uint64_t value) { return fmt::format("{}", value); }
std::string write(const std::string& value) { return write_string(value); }

std::string write(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string write(const std::vector<std::string>& value) {
  std::vector<std::string> items;
  items.reserve(value.size());
  for (const std::string& item : value) items.push_back(write_string(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

/// Text that every YAML reader takes for the same string: it starts with a letter, a dot or a slash (so no number,
/// sign, or indicator), holds nothing that could end or fold it, and is no word with a meaning of its own.
bool is_plain(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !(is_letter(text[0]) || text[0] == '/' || text[0] == '.')) return false;
  if (text[0] == '.' && (text.size() < 2 || text[1] != '/') && text != "." && text != "..") return false;
  for (char c : text) {
    if (!is_letter(c) && !is_digit(c) && std::string("_-./+").find(c) == std::string::npos) return false;
  }
  std::string lower;
  for (char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"}) {
    if (lower == word) return false;
  }
  return true;
}

}  // namespace

void read_value(const YAML::Node& node, const FieldPointer& value) {
  std::visit([&](auto* target) { read(node, *target, name_of(*target)); }, value);
}

std::string write_value(const FieldPointer& value) {
  return std::visit([](auto* source) { return write(*source); }, value);
}

std::string write_string(const std::string& text) {
  if (is_plain(text)) return text;
  std::string quoted = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string type_name(const FieldPointer& value) {
  return std::visit([](auto* target) { return std::string(name_of(*target)); }, value);
}

std::string bound_violation(const FieldPointer& value, const Bound& bound) {
  const bool allowed = std::visit(
      [&](auto* target) {
        if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(*target)>>) {
          return bound.allows(static_cast<double>(*target));
        } else {
          return bound.allows(*target);
        }
      },
      value);
  return allowed ? "" : expected(write_value(value), bound.text());
}

}  // namespace foretime::configs
