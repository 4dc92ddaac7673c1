#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "base/no_copy.h"

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

  /// Parses a text and returns its root, which is valid until the next call of parse() and while this object lives.
  /// Throws DataError for an empty text, text that is not JSON, and lists and objects nested deeper than kDepth.
  Element parse(const std::string& text);

  /// Adds a part to the place that messages name, during its lifetime. `name` must live as long.
  class Inside : NoCopy {
   public:
    /// The part is "NAME", or "NAME[INDEX]" if `index` is not negative.
    Inside(JsonReader& reader, std::string_view name, int64_t index = -1) : reader_(reader) {
      reader_.place_.push_back({name, index});
    }
    ~Inside() { reader_.place_.pop_back(); }

   private:
    JsonReader& reader_;
  };

  /// Throws DataError "ORIGIN: PLACE: WHAT".
  [[noreturn]] void fail(const std::string& what) const;
  /// Throws DataError "ORIGIN: PLACE: found, expected EXPECTED"; `expected` is text such as "a list".
  [[noreturn]] void fail(const Element& found, std::string_view expected) const;

  /// Returns an element as a T. Throws DataError, which names `expected`, if the element is of another type.
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
  /// Returns an element as a whole number. Throws DataError unless it is from `least` to `most`.
  int64_t integer(const Element& element, int64_t least, int64_t most) const;
  /// Returns an element as a finite number. Throws DataError if it is beyond the range of a float.
  float number(const Element& element) const;
  /// Returns a string, or the digits of a whole number. Throws DataError for other elements.
  std::string name(const Element& element) const;
  /// Sets `met`. Throws DataError, for a field that occurs twice, if `met` was set before.
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

/// Returns a value as messages show it: "a list", "an object", or the first 80 bytes of its JSON as printable ASCII.
std::string json_excerpt(const simdjson::dom::element& element);

}  // namespace foretime
