#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "configs/settings.h"

namespace YAML {
class Node;
}

/// The settings as a flat list, so that loading, printing and checking are ordinary code instead of templates, and
/// conversions of single values from and to YAML.
namespace foretime::configs {

/// Describes the allowed values of a setting: an interval for numbers; whether strings and lists may be empty. A
/// default Bound allows everything.
struct Bound {
  double low = -std::numeric_limits<double>::infinity();  // smallest allowed number
  double high = std::numeric_limits<double>::infinity();  // largest allowed number
  bool low_open = false;                                  // true: `low` itself is not allowed
  bool high_open = false;                                 // true: `high` itself is not allowed
  bool filled = false;                                    // true: a string or list must not be empty

  /// Returns whether a number is within the interval.
  bool allows(double value) const;
  /// Returns `> 0`, `>= 1`, `in [0, 1)` or `not empty`; "" if everything is allowed.
  std::string text() const;
};

constexpr Bound anything = {};
constexpr Bound above(double low) { return {.low = low, .low_open = true}; }
constexpr Bound at_least(double low) { return {.low = low}; }
constexpr Bound between(double low, double high) { return {.low = low, .high = high}; }
constexpr Bound above_up_to(double low, double high) { return {.low = low, .high = high, .low_open = true}; }
constexpr Bound from_to_below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
constexpr Bound not_empty() { return {.filled = true}; }

/// Refers to a choice without its type: each is one byte, the index of its word in `words`, a list of enumerators.
struct ChoiceField {
  uint8_t* value;
  std::string_view words;
};

/// Refers to a list of choices without its type.
struct ChoiceListField {
  void* list;  // std::vector of an enum
  std::string_view words;
  std::vector<uint8_t> (*get)(const void* list);                // returns the indices of the words in the list
  void (*set)(void* list, const std::vector<uint8_t>& values);  // replaces the list by the words of these indices
};

using FieldPointer = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<std::string>*,
                                  ChoiceField, ChoiceListField>;

struct Field {
  std::string key;     // full name, such as trainer.early_stop.patience
  FieldPointer value;  // points into the Settings that the list was made from
  std::string meaning;
  Bound bound;

  /// Returns the part of the key before the last dot.
  std::string section() const { return key.substr(0, key.rfind('.')); }
  std::string name() const { return key.substr(key.rfind('.') + 1); }
  /// Returns the comma-separated enumerators of a choice or a list of choices (split_words); "" for other settings.
  std::string_view words() const;
};

struct Section {
  std::string key;  // full name, such as trainer.early_stop
  std::string meaning;
};

/// Lists all settings and sections in the order of their declaration.
struct FieldList {
  std::vector<Field> fields;
  std::vector<Section> sections;

  /// Returns the field with this full name; null if there is none.
  const Field* field(const std::string& key) const;
  /// Returns the section with this full name; null if there is none.
  const Section* section(const std::string& key) const;
};

/// Returns all fields of `settings`, which must outlive the list.
FieldList list_fields(Settings& settings);

/// Reports a value that does not match its field. The text reads `found X, expected Y`; callers add place and key.
struct ValueError {
  std::string text;
};

/// Parses `node` into the setting that `value` refers to, without checking bounds. Stricter than yaml-cpp: numbers must
/// be plain decimal text in the range of the type, doubles finite, booleans `true` or `false`; a single string means a
/// list of one. Throws ValueError, also for an empty value (`key:`), and then leaves the setting unchanged.
void read_value(const YAML::Node& node, const FieldPointer& value);

/// Returns the setting as YAML on one line, which read_value reads back to the same value: doubles in shortest
/// round-trip form, strings quoted if plain text would mean something else.
std::string write_value(const FieldPointer& value);

/// Returns a string as YAML on one line.
std::string write_string(const std::string& text);

/// Returns the type in the words of messages and of the reference page, such as `an integer` or `a number`.
std::string type_name(const FieldPointer& value);

/// Returns the allowed values of a field, such as `> 0` or `one of a, b`; "" if the type alone describes them.
std::string allowed_text(const Field& field);

/// Returns `found X, expected Y` for a value outside of the field's bound, and a double that float32 cannot hold or
/// rounds out of the bound; else "".
std::string bound_violation(const Field& field);

}  // namespace foretime::configs
