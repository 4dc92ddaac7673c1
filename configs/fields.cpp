#include "configs/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "base/numbers.h"
#include "base/text.h"

namespace foretime::configs {
namespace {

template <class T>
FieldPointer pointer_to(T& value) {
  return &value;
}

template <Choice T>
FieldPointer pointer_to(T& value) {
  return ChoiceField{reinterpret_cast<uint8_t*>(&value), choice_words(T())};
}

template <Choice T>
FieldPointer pointer_to(std::vector<T>& value) {
  using List = std::vector<T>;
  return ChoiceListField{&value, choice_words(T()),
                         [](const void* list) {
                           std::vector<uint8_t> values;
                           for (const T item : *static_cast<const List*>(list))
                             values.push_back(static_cast<uint8_t>(item));
                           return values;
                         },
                         [](void* list, const std::vector<uint8_t>& values) {
                           static_cast<List*>(list)->clear();
                           for (const uint8_t item : values) static_cast<List*>(list)->push_back(static_cast<T>(item));
                         }};
}

struct Lister {
  FieldList& list;
  std::string prefix;

  template <class T>
  void field(const char* name, T& value, const Bound& bound, const char* meaning) const {
    list.fields.push_back({prefix + name, pointer_to(value), meaning, bound});
  }

  template <class Struct>
  void section(const char* name, Struct& value, const char* meaning) const {
    list.sections.push_back({prefix + name, meaning});
    list_members(value, Lister{list, prefix + name + "."});
  }
};

#define STRUCT(Name) void list_members(Name& s, const Lister& list)
#define FIELD(Type, member, value, bound, meaning) list.field(#member, s.member, bound, meaning)
#define CHOICE(Type, member, word, meaning) list.field(#member, s.member, anything, meaning)
#define SECTION(Type, member, meaning) list.section(#member, s.member, meaning)
#include "configs/settings_table.h"

template <class Items>
auto find_key(const Items& items, const std::string& key) {
  const auto found = std::ranges::find_if(items, [&](const auto& item) { return item.key == key; });
  return found == items.end() ? nullptr : &*found;
}

}  // namespace

/// Calls `take` with one word after the other, while it returns true.
template <class Take>
static void each_word(std::string_view list, const Take& take) {
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find(',', start), list.size());
    std::string_view word = list.substr(start, end - start);
    if (word.ends_with('_')) word.remove_suffix(1);
    if (!take(word)) return;
    start = list.find_first_not_of(", ", end);
  }
}

std::vector<std::string> split_words(std::string_view list) {
  std::vector<std::string> words;
  each_word(list, [&](std::string_view word) {
    words.emplace_back(word);
    return true;
  });
  return words;
}

std::string word_at(std::string_view list, size_t index) {
  std::string found;
  each_word(list, [&](std::string_view word) {
    if (index-- == 0) found = word;
    return found.empty();
  });
  return found;
}

std::optional<uint8_t> index_of_word(std::string_view list, std::string_view word) {
  uint8_t index = 0;
  bool found = false;
  each_word(list, [&](std::string_view each) {
    found = each == word;
    if (!found) ++index;
    return !found;
  });
  return found ? std::optional(index) : std::nullopt;
}

std::string not_among(const std::string& found, std::string_view word, const std::vector<std::string>& words) {
  const std::string nearest = nearest_name(std::string(word), words);
  return fmt::format("found {}, expected one of {}{}", found, fmt::join(words, ", "),
                     nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

bool Bound::allows(double value) const {
  if (low_open ? value <= low : value < low) return false;
  return high_open ? value < high : value <= high;
}

std::string Bound::text() const {
  if (filled) return "not empty";
  if (std::isfinite(low) && std::isfinite(high))
    return fmt::format("in {}{}, {}{}", low_open ? '(' : '[', low, high, high_open ? ')' : ']');
  return std::isfinite(low) ? fmt::format("{} {}", low_open ? ">" : ">=", low) : "";
}

std::string_view Field::words() const {
  if (const auto* choice = std::get_if<ChoiceField>(&value)) return choice->words;
  const auto* list = std::get_if<ChoiceListField>(&value);
  return list == nullptr ? std::string_view() : list->words;
}

const Field* FieldList::field(const std::string& key) const { return find_key(fields, key); }
const Section* FieldList::section(const std::string& key) const { return find_key(sections, key); }

FieldList list_fields(Settings& settings) {
  FieldList list;
  list_members(settings, Lister{list, ""});
  return list;
}

namespace {

std::string expected(const std::string& found, const std::string& what) {
  return fmt::format("found {}, expected {}", found, what);
}

std::string describe(const YAML::Node& node) {
  if (node.IsSequence()) return fmt::format("a list of {}", node.size());
  if (node.IsMap()) return "a map";
  if (!node.IsScalar()) return "nothing";
  return fmt::format("{}'{}'", node.Tag() == "!" ? "the quoted string " : "", node.Scalar());
}

/// The scalar's text, for numbers and booleans, which quotes turn into strings.
std::string plain_text(const YAML::Node& node, const char* type) {
  if (!node.IsScalar() || node.Tag() == "!") throw ValueError{expected(describe(node), type)};
  return node.Scalar();
}

template <class Number>
requires std::is_arithmetic_v<Number>
void read(const YAML::Node& node, Number& value, const char* type) {
  const std::string text = plain_text(node, type);
  const auto digits = without_plus(text);
  const char* end = digits.data() + digits.size();
  Number parsed{};
  const auto [stop, error] = std::from_chars(digits.data(), end, parsed);  // parse_number gives no reason
  if (error == std::errc::result_out_of_range && stop == end) {
    if constexpr (std::is_integral_v<Number>) {
      using Limits = std::numeric_limits<Number>;
      throw ValueError{expected(describe(node), fmt::format("{} from {} to {}", type, Limits::min(), Limits::max()))};
    }
    throw ValueError{expected(describe(node), "a number that a double holds")};
  }
  if (error != std::errc() || stop != end) throw ValueError{expected(describe(node), type)};
  if constexpr (std::is_floating_point_v<Number>)
    if (!std::isfinite(parsed)) throw ValueError{expected(describe(node), "a finite number")};
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

uint8_t read_word(const std::string& word, std::string_view words) {
  if (const auto index = index_of_word(words, word)) return *index;
  throw ValueError{not_among(write_string(word), word, split_words(words))};
}

void read(const YAML::Node& node, const ChoiceField& choice, const char* type) {
  *choice.value = read_word(string_of(node, type), choice.words);
}

void read(const YAML::Node& node, const ChoiceListField& choices, const char* type) {
  std::vector<std::string> words;
  read(node, words, type);
  std::vector<uint8_t> values;
  for (const auto& word : words) values.push_back(read_word(word, choices.words));
  choices.set(choices.list, values);
}

template <std::integral Value>
std::string write(Value value) {
  return fmt::format("{}", value);
}
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

std::string write(const ChoiceField& choice) { return write_string(word_at(choice.words, *choice.value)); }

std::string write(const ChoiceListField& choices) {
  std::vector<std::string> words;
  for (const uint8_t value : choices.get(choices.list)) words.push_back(word_at(choices.words, value));
  return write(words);
}

/// Returns the value or choice that a field's pointer refers to.
template <class T>
T& target_of(T* pointer) {
  return *pointer;
}
template <class T>
const T& target_of(const T& choice) {
  return choice;
}

/// Returns whether every YAML reader takes a text for the same string: it starts with a letter, a dot or a slash (so it
/// is no number, sign or indicator), has no characters that could end or fold it, and is no reserved word.
bool is_plain(const std::string& text) {
  if (text.empty() || !(is_letter(text[0]) || text[0] == '/' || text[0] == '.')) return false;
  if (text[0] == '.' && (text.size() < 2 || text[1] != '/') && text != "." && text != "..") return false;
  if (!has_only_letters_digits_and("_-./+", text)) return false;
  const auto lower = lower_case(text);
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"})
    if (lower == word) return false;
  return true;
}

}  // namespace

void read_value(const YAML::Node& node, const FieldPointer& value) {
  std::visit([&](const auto& target) { read(node, target_of(target), type_name(value).c_str()); }, value);
}

std::string write_value(const FieldPointer& value) {
  return std::visit([](const auto& source) { return write(target_of(source)); }, value);
}

std::string write_string(const std::string& text) {
  if (is_plain(text)) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if ((c >= 0 && c < 0x20) || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", int{c});
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string type_name(const FieldPointer& value) {
  constexpr const char* kNames[] = {"true or false", "an integer",       "an integer that is not negative",
                                    "a number",      "a string",         "a list of strings",
                                    "a string",      "a list of strings"};
  static_assert(std::size(kNames) == std::variant_size_v<FieldPointer>);
  return kNames[value.index()];
}

std::string allowed_text(const Field& field) {
  if (field.words().empty()) return field.bound.text();
  return fmt::format("one {}of {}", field.bound.filled ? "or more " : "", fmt::join(split_words(field.words()), ", "));
}

/// LibTorch computes with settings as float32: a number beyond its range, or one that rounds to a value that the bound
/// excludes (1e-60 to 0), would fail or mean something else.
static std::string float_violation(double value, const Bound& bound) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (std::abs(value) > kLargest)
    return expected(write_value(&value), fmt::format("at most {:.3g}, the largest number of float32", kLargest));
  const double rounded = static_cast<float>(value);
  if (bound.allows(rounded)) return "";
  return expected(write_value(&value),
                  fmt::format("a number that is {} as float32 too, where it is {}", bound.text(), rounded));
}

std::string bound_violation(const Field& field) {
  if (const auto* number = std::get_if<double*>(&field.value); number != nullptr && field.bound.allows(**number))
    return float_violation(**number, field.bound);
  const bool allowed = std::visit(
      [&](const auto& pointer) {
        const auto& value = target_of(pointer);
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<Value>) return field.bound.allows(value);
        else if constexpr (std::is_same_v<Value, ChoiceListField>)
          return !field.bound.filled || !value.get(value.list).empty();
        else if constexpr (std::is_same_v<Value, ChoiceField>) return true;
        else return !field.bound.filled || !value.empty();
      },
      field.value);
  return allowed ? "" : expected(write_value(field.value), allowed_text(field));
}

}  // namespace foretime::configs
