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

/// The settings as a flat list, so that loading, printing and checking are ordinary code and not templates; and single
/// values to and from YAML.
namespace foretime::configs {

/// What a setting may be besides its type. Numbers: an interval. Strings and lists: whether they may be empty. A
/// default Bound allows everything.
struct Bound {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
  bool filled = false;

  bool allows(double value) const;
  /// `> 0`, `>= 1`, `in [0, 1)`, `not empty`; empty where everything is allowed.
  std::string text() const;
};

constexpr Bound anything = {};
constexpr Bound above(double low) { return {.low = low, .low_open = true}; }
constexpr Bound at_least(double low) { return {.low = low}; }
constexpr Bound between(double low, double high) { return {.low = low, .high = high}; }
constexpr Bound above_up_to(double low, double high) { return {.low = low, .high = high, .low_open = true}; }
constexpr Bound from_to_below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
constexpr Bound not_empty() { return {.filled = true}; }

/// A choice without its type: every one is a byte, the index of its word.
struct ChoiceField {
  uint8_t* value;
  std::string_view words;
};

struct ChoiceListField {
  void* list;  // std::vector of an enum
  std::string_view words;
  std::vector<uint8_t> (*get)(const void* list);
  void (*set)(void* list, const std::vector<uint8_t>& values);
};

using FieldPointer = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<std::string>*,
                                  ChoiceField, ChoiceListField>;

struct Field {
  std::string key;     // full name: trainer.early_stop.patience
  FieldPointer value;  // into the Settings that the list was made from
  std::string meaning;
  Bound bound;

  /// The part of the key before the last dot.
  std::string section() const { return key.substr(0, key.rfind('.')); }
  std::string name() const { return key.substr(key.rfind('.') + 1); }
  /// Of a choice or a list of choices; empty for other settings.
  std::string_view words() const;
};

struct Section {
  std::string key;  // trainer.early_stop
  std::string meaning;
};

/// In declaration order; a section comes before its keys.
struct FieldList {
  std::vector<Field> fields;
  std::vector<Section> sections;

  /// Null where there is none of that name.
  const Field* field(const std::string& key) const;
  const Section* section(const std::string& key) const;
};

/// Points into `settings`, which must outlive the list.
FieldList list_fields(Settings& settings);

/// A value that does not fit its field. The text reads `found X, expected Y`; callers add where and which key.
struct ValueError {
  std::string text;
};

/// Writes what `node` holds to `value`, without checking bounds. Stricter than yaml-cpp: numbers must be plain decimal
/// text that the type holds, doubles finite, booleans `true` or `false`; a single string stands for a list of one.
/// Nothing (`key:`) is refused, not read as a default. Throws ValueError.
void read_value(const YAML::Node& node, const FieldPointer& value);

/// The value as YAML on one line, which read_value reads back to the same value: doubles in shortest round-trip form,
/// strings quoted where plain text would mean something else.
std::string write_value(const FieldPointer& value);

/// One string as YAML, and one list element likewise.
std::string write_string(const std::string& text);

/// `an integer`, `a number`, …: the words of messages and of the reference page.
std::string type_name(const FieldPointer& value);

/// What a field may be: `> 0`, `one of a, b`, …; empty where its type says it all.
std::string allowed_text(const Field& field);

/// `found X, expected Y` where the value lies outside of the field's bound, else empty.
std::string bound_violation(const Field& field);

}  // namespace foretime::configs
