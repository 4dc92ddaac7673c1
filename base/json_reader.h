#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

namespace foretime {

/// Reads JSON that people and programs outside wrote, and says where it is wrong:
/// `candidates.json: candidates[3]: layouts: node 17: …`.
class JsonReader {
 public:
  using Element = simdjson::dom::element;

  /// Lists and objects inside of each other at most; what we read has six.
  static constexpr size_t kDepth = 16;

  /// `origin` starts messages.
  explicit JsonReader(std::string origin) : origin_(std::move(origin)) {}

  /// The root, valid as long as this object and until the next call. Throws DataError for what is no JSON, and for
  /// more depth than kDepth. A text with some capacity left (simdjson's padding) need not be copied.
  Element parse(const std::string& text);

  /// The place that messages name grows by one part as long as this lives. `name` must live as long.
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

  /// Throws DataError.
  [[noreturn]] void fail(const std::string& what) const;
  /// `expected` begins: a list, an object with layouts.
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
  /// A whole number from `least` to `most`.
  int64_t integer(const Element& element, int64_t least, int64_t most) const;
  /// A finite number that fits a float.
  float number(const Element& element) const;
  /// A string, or a whole number as text.
  std::string name(const Element& element) const;
  /// Throws DataError where the field was met before; `met` remembers.
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

/// A value as messages show it: cut to a line, without control characters.
std::string json_excerpt(const simdjson::dom::element& element);

}  // namespace foretime
