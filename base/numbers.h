#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace foretime {

/// Returns the number at the start of `text`, as std::from_chars reads it in any locale (no space and no plus sign
/// before it; "inf" and "nan" are floating-point numbers), and removes it from `text`. Returns nullopt and leaves
/// `text` unchanged if it does not begin with a number that `Number` can hold. `base` applies to integers only.
template <class Number>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
  Number value{};
  const char* end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_integral_v<Number>) read = std::from_chars(text.data(), end, value, base);
  else read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc()) return std::nullopt;
  text.remove_prefix(read.ptr - text.data());
  return value;
}

/// Returns the number that the whole of `text` is, as take_number reads it; nullopt for any other text.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  const auto value = take_number<Number>(text, base);
  return text.empty() ? value : std::nullopt;
}

/// Returns a number's text without a leading plus sign, which YAML and tables allow and parse_number does not. Texts
/// without one, "+" alone and "+-…" are returned unchanged.
constexpr std::string_view without_plus(std::string_view text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

}  // namespace foretime
