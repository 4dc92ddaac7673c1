#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

namespace foretime::inference {

/// Holds limits for a JSON text of unknown origin.
struct JsonBounds {
  size_t levels = 0;          // largest depth of nested arrays and objects
  size_t object_members = 0;  // largest number of members of one object
};

/// Parses a JSON text in linear time. `what` names the text in messages. Throws BundleError for a text that is not
/// JSON, exceeds `bounds`, or has an object with two members of one name, of which other readers would silently keep
/// one.
nlohmann::json parse_strict_json(std::string_view text, const char* what, const JsonBounds& bounds);

}  // namespace foretime::inference
