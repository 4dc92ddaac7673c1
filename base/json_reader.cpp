#include "base/json_reader.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace foretime {

JsonReader::Element JsonReader::parse(const std::string& text) {
  const auto refuse = [&](simdjson::error_code error) {
    if (error == simdjson::DEPTH_ERROR) fail(fmt::format("more than {} lists and objects inside each other", kDepth));
    fail(fmt::format("no JSON: {}", simdjson::error_message(error)));
  };
  if (text.empty()) fail("empty, expected JSON");
  if (const auto error = parser_.allocate(text.size(), kDepth)) refuse(error);
  Element root;
  if (const auto error = parser_.parse(text).get(root)) refuse(error);
  return root;
}

void JsonReader::fail(const std::string& what) const {
  std::string message = origin_;
  for (const auto& part : place_) {
    message += message.empty() ? "" : ": ";
    message += printable(part.name);
    if (part.index >= 0) message += fmt::format("[{}]", part.index);
  }
  throw DataError("{}{}{}", message, message.empty() ? "" : ": ", what);
}

void JsonReader::fail(const Element& found, std::string_view expected) const {
  fail(fmt::format("{}, expected {}", json_excerpt(found), expected));
}

int64_t JsonReader::integer(const Element& element, int64_t least, int64_t most) const {
  int64_t value = 0;
  if (element.get(value) != simdjson::SUCCESS || value < least || value > most)
    fail(element, most == std::numeric_limits<int64_t>::max() ? fmt::format("a whole number from {}", least)
                                                              : fmt::format("a whole number, {} … {}", least, most));
  return value;
}

float JsonReader::number(const Element& element) const {
  double value = 0.0;
  if (element.get(value) != simdjson::SUCCESS || !(std::abs(value) <= double{std::numeric_limits<float>::max()}))
    fail(element, "a number that fits 32 bits");
  return value;
}

std::string JsonReader::name(const Element& element) const {
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) return std::string(text);
  int64_t number = 0;
  if (element.get(number) == simdjson::SUCCESS) return std::to_string(number);
  fail(element, "a text or a whole number");
}

void JsonReader::once(bool& met) const {
  if (met) fail("given twice");
  met = true;
}

std::string json_excerpt(const simdjson::dom::element& element) {
  if (element.is_array()) return "a list";
  return element.is_object() ? "an object" : printable(simdjson::minify(element));
}

}  // namespace foretime
