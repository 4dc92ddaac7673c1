#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

namespace foretime {

/// Returns the number that the whole of `text` is, as std::from_chars reads it: whatever the locale, without spaces and
/// without a plus sign. Empty for any other text, and for a number that `Number` cannot hold.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number value{};
  const char* end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_integral_v<Number>)
    read = std::from_chars(text.data(), end, value, base);
  else
    read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

}  // namespace foretime
