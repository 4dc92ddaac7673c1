#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace foretime {

/// Takes the number at the start of `text` off it, as std::from_chars reads it: whatever the locale, without spaces and
/// without a plus sign. Returns empty and leaves `text` unchanged if it begins otherwise, or `Number` cannot hold it.
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

/// Returns the number that the whole of `text` is, as take_number reads it. Empty for any other text, and for a number
/// that `Number` cannot hold.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  const auto value = take_number<Number>(text, base);
  return text.empty() ? value : std::nullopt;
}

/// Returns a number's text without a plus sign, which YAML and tables allow and parse_number does not.
constexpr std::string_view without_plus(std::string_view text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

}  // namespace foretime
