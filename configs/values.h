#pragma once

#include <string>

#include <yaml-cpp/yaml.h>

#include "configs/fields.h"

/// Single values of settings to and from YAML.
namespace foretime::configs {

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
