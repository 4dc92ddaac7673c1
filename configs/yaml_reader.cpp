#include "configs/yaml_reader.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "configs/load.h"
#include "configs/values.h"
#include "configs/yaml_document.h"

namespace foretime::configs {
namespace {

std::string place_of(const YAML::Node& node, const std::string& origin) {
  // Overrides are their own place: they have no lines.
  if (origin.starts_with("override ") || node.Mark().line < 0) return origin;
  return fmt::format("{}:{}", origin, node.Mark().line + 1);
}

std::string kind_of(const YAML::Node& node) {
  if (node.IsScalar()) return fmt::format("'{}'", node.Scalar().substr(0, 100));
  if (node.IsSequence()) return fmt::format("a list of {}", node.size());
  return node.IsMap() ? "a map" : "nothing";
}

void check_size(const YAML::Node& node, const std::string& origin, int depth, int64_t& count) {
  if (++count > kMostYamlValues) {
    throw SettingsError(
        fmt::format("{}: found more than {} values (aliases count for what they stand for)", origin, kMostYamlValues));
  }
  if (depth > kMostYamlLevels)
    throw SettingsError(fmt::format("{}: found more than {} nested levels", place_of(node, origin), kMostYamlLevels));
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) check_size(item, origin, depth + 1, count);
  } else if (node.IsMap()) {
    for (const auto& item : node) check_size(item.second, origin, depth + 1, count);
  }
}

template <class Value>
Value read(const YamlEntry& entry) {
  Value value{};
  try {
    read_value(entry.node, &value);
  } catch (const ValueError& error) {
    fail(entry, error.text);
  }
  return value;
}

bool has_meaning_at_start(const std::string& text) {
  return text.empty() || std::string("[{\"' \t").find(text.front()) != std::string::npos || text.back() == ' ' ||
         text.back() == '\t' || text.find('\n') != std::string::npos;
}

}  // namespace

void fail(const YamlEntry& entry, const std::string& text) {
  throw SettingsError(fmt::format("{}: {}{}{}", entry.place, entry.key, entry.key.empty() ? "" : ": ", text));
}

std::string read_yaml_text(const std::string& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error) throw SettingsError(fmt::format("{}: cannot be read ({}), expected a YAML file", file, error.message()));
  if (size > kMostYamlBytes)
    throw SettingsError(
        fmt::format("{}: found {} bytes, expected a YAML file of at most {}", file, size, kMostYamlBytes));
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream.is_open() && stream.peek() != std::ifstream::traits_type::eof()) text << stream.rdbuf();
  if (!stream.is_open() || stream.bad() || text.bad())
    throw SettingsError(fmt::format("{}: cannot be read, expected a YAML file", file));
  return text.str();
}

YAML::Node parse_yaml(const std::string& yaml, const std::string& origin) {
  if (yaml.size() > kMostYamlBytes) {
    throw SettingsError(
        fmt::format("{}: found {} bytes, expected a YAML file of at most {}", origin, yaml.size(), kMostYamlBytes));
  }
  YAML::Node root;
  try {
    const auto document = only_document(yaml);
    if (!document) throw SettingsError(fmt::format("{}: found more than one YAML document, expected one", origin));
    root = *document;
  } catch (const YAML::Exception& error) {
    throw SettingsError(
        fmt::format("{}:{}: found text that is no YAML: {}", origin, std::max(error.mark.line, 0) + 1, error.msg));
  }
  if (!root.IsMap()) throw SettingsError(fmt::format("{}: found {}, expected a map", origin, kind_of(root)));
  int64_t count = 0;
  check_size(root, origin, 0, count);
  return root;
}

std::vector<YamlEntry> items_of(const YamlEntry& map, const std::string& origin, const std::string& prefix,
                                const std::vector<std::string>& known) {
  if (!map.node.IsMap()) fail(map, fmt::format("found {}, expected a map", kind_of(map.node)));
  std::vector<YamlEntry> items;
  std::map<std::string, std::string> seen;
  for (const auto& item : map.node) {
    const std::string place = place_of(item.first, origin);
    if (!item.first.IsScalar()) fail({prefix, item.first, place}, "found a key that is not a name");
    const std::string name = item.first.Scalar();
    const YamlEntry entry{prefix + name, item.second, place};
    const auto [earlier, is_new] = seen.emplace(name, place);
    if (!is_new) fail(entry, fmt::format("found a second time, first at {}", earlier->second));
    if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string nearest = nearest_name(name, known);
      if (!nearest.empty()) fail(entry, fmt::format("unknown key, did you mean {}?", prefix + nearest));
      fail(entry, fmt::format("unknown key, expected one of {}", fmt::join(known, ", ")));
    }
    items.push_back(entry);
  }
  return items;
}

int64_t integer_in(const YamlEntry& entry, int64_t low, int64_t high) {
  const auto value = read<int64_t>(entry);
  if (value < low || value > high) fail(entry, fmt::format("found {}, expected {} to {}", value, low, high));
  return value;
}

uint64_t seed_in(const YamlEntry& entry) { return read<uint64_t>(entry); }
double number_in(const YamlEntry& entry) { return read<double>(entry); }

bool flag_in(const YamlEntry& entry) {
  const std::string text = entry.node.IsScalar() ? entry.node.Scalar() : "";
  if (text == "True" || text == "False") return text == "True";
  return read<bool>(entry);
}

std::string text_in(const YamlEntry& entry, size_t limit) {
  const auto text = read<std::string>(entry);
  if (text.empty() || text.size() > limit)
    fail(entry, fmt::format("found {} bytes of text, expected 1 to {}", text.size(), limit));
  const bool printable = std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!printable) fail(entry, "found control characters, expected printable text on one line");
  return text;
}

std::string choice_in(const YamlEntry& entry, const std::vector<std::string>& choices) {
  const auto text = read<std::string>(entry);
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  const std::string nearest = nearest_name(text, choices);
  fail(entry, fmt::format("found '{}', expected one of {}{}", text.substr(0, 100), fmt::join(choices, ", "),
                          nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
}

bool is_integer(const YAML::Node& node) {
  if (!node.IsScalar() || node.Tag() == "!") return false;
  const std::string& text = node.Scalar();
  int64_t value = 0;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [stop, error] = std::from_chars(begin, text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

std::string override_text(const YamlEntry& entry) {
  const YAML::Node& node = entry.node;
  if (node.IsSequence()) {
    std::vector<std::string> items;
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) fail(entry, fmt::format("found {} in a list, expected text or a number", kind_of(item)));
      items.push_back(write_string(item.Scalar()));
    }
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (!node.IsScalar()) fail(entry, fmt::format("found {}, expected a value or a list of values", kind_of(node)));
  const std::string& text = node.Scalar();
  if (node.Tag() != "!" && (text == "True" || text == "False")) return text == "True" ? "true" : "false";
  return has_meaning_at_start(text) ? write_string(text) : text;
}

}  // namespace foretime::configs
