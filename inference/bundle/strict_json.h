#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

namespace foretime::inference {

/// Bounds of a JSON text from outside.
struct JsonBounds {
  size_t levels = 0;          // arrays and objects inside of each other
  size_t object_members = 0;  // of one object
};

/// Parses a JSON text in time linear in its length. `what` names the text in messages. Throws BundleError for a text
/// that is not JSON, exceeds `bounds`, or has an object with two members of one name, of which JSON readers would keep
/// one silently.
nlohmann::json parse_strict_json(std::string_view text, const char* what, const JsonBounds& bounds);

}  // namespace foretime::inference
