#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

namespace foretime {

/// Reads JSON from users and other programs, and reports the places of errors: `candidates.json: candidates[3]:
/// layouts: node 17: …`.
class JsonReader {
 public:
  using Element = simdjson::dom::element;

  /// The largest depth of nested lists and objects; known formats have six.
  static constexpr size_t kDepth = 16;

  /// `origin` is the prefix of messages.
  explicit JsonReader(std::string origin) : origin_(std::move(origin)) {}

  /// Returns the root, valid until the next call and while this object lives. Throws DataError for text that is not
  /// JSON, or that is nested deeper than kDepth. A text with spare capacity (simdjson's padding) is not copied.
  Element parse(const std::string& text);

  /// Adds a part to the place that messages name, for a scope. `name` must live as long.
  class Inside {
   public:
    Inside(JsonReader& reader, std::string_view name, int64_t index = -1) : reader_(reader) {
      reader_.place_.push_back({name, index});
    }
    ~Inside() { reader_.place_.pop_back(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    JsonReader& reader_;
  };

  /// Throws DataError with the current place.
  [[noreturn]] void fail(const std::string& what) const;
  /// Throws DataError: found `found`, expected `expected` (for example: a list).
  [[noreturn]] void fail(const Element& found, std::string_view expected) const;

  template <class T>
  T get(const Element& element, std::string_view expected) const {
    T value;
    if (element.get(value) != simdjson::SUCCESS) fail(element, expected);
    return value;
  }
  simdjson::dom::array list(const Element& element, std::string_view expected) const {
    return get<simdjson::dom::array>(element, expected);
  }
  simdjson::dom::object object(const Element& element, std::string_view expected) const {
    return get<simdjson::dom::object>(element, expected);
  }
  /// Returns a whole number from `least` to `most`.
  int64_t integer(const Element& element, int64_t least, int64_t most) const;
  /// Returns a finite number that fits a float.
  float number(const Element& element) const;
  /// Returns a string, or a whole number as text.
  std::string name(const Element& element) const;
  /// Throws DataError if `met` is set, for a field that occurs twice; then sets `met`.
  void once(bool& met) const;

 private:
  struct Part {
    std::string_view name;
    int64_t index;
  };
  std::string origin_;
  std::vector<Part> place_;
  simdjson::dom::parser parser_;
};

/// Returns a value as messages show it: cut to a line, without control characters.
std::string json_excerpt(const simdjson::dom::element& element);

}  // namespace foretime
