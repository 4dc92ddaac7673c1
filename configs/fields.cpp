#include "configs/fields.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::vector<std::string> split_words(std::string_view list) {
  std::vector<std::string> words;
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find(',', start), list.size());
    std::string_view word = list.substr(start, end - start);
    if (word.ends_with('_')) word.remove_suffix(1);
    words.emplace_back(word);
    start = list.find_first_not_of(", ", end);
  }
  return words;
}

std::string word_at(std::string_view list, size_t index) { return split_words(list).at(index); }

std::optional<uint8_t> index_of_word(std::string_view list, std::string_view word) {
  const auto words = split_words(list);
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<uint8_t>(found - words.begin());
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
  if (std::isfinite(low) && std::isfinite(high)) {
    return fmt::format("in {}{}, {}{}", low_open ? '(' : '[', low, high, high_open ? ')' : ']');
  }
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

}  // namespace foretime::configs
