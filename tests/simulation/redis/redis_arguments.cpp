#include "tests/simulation/redis/redis_arguments.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <system_error>

namespace foretime::simulation {
namespace {

constexpr const char* kNotAnInteger = "ERR value is not an integer or out of range";
constexpr const char* kNotAFloat = "ERR value is not a valid float";

}  // namespace

int64_t integer_from(const std::string& text) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) throw Refusal{kNotAnInteger};
  return value;
}

double number_from(const std::string& text) {
  if (text == "+inf" || text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  int64_t whole = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (failure == std::errc() && stop == text.data() + text.size()) return static_cast<double>(whole);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || std::isnan(value)) throw Refusal{kNotAFloat};
  return value;
}

bool same_word(const std::string& text, const char* word) {
  return text.size() == std::strlen(word) &&
         std::equal(text.begin(), text.end(), word, [](char a, char b) { return std::toupper(a) == b; });
}

Bound::Bound(const std::string& text) : value(0), open(!text.empty() && text[0] == '(') {
  try {
    value = number_from(text.substr(open ? 1 : 0));
  } catch (const Refusal&) {
    throw Refusal{"ERR min or max is not a float"};
  }
}

std::pair<int64_t, int64_t> range_of(const std::string& first, const std::string& last, int64_t size) {
  int64_t begin = integer_from(first), end = integer_from(last);
  if (begin < 0) begin = std::max<int64_t>(0, begin + size);
  if (end < 0) end += size;
  return {begin, std::min(end, size - 1)};
}

}  // namespace foretime::simulation
