#include "configs/load.h"

#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/text.h"
#include "configs/consistency.h"
#include "configs/field_list.h"
#include "configs/values.h"
#include "configs/yaml_document.h"

namespace foretime::configs {
namespace {

[[noreturn]] void fail(const std::string& place, const std::string& what) {
  throw SettingsError(fmt::format("{}: {}", place, what));
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

/// Fills settings key by key and remembers where each came from, so that bounds can be checked when all is read.
class Loader {
 public:
  explicit Loader(Settings& settings) : list_(list_fields(settings)) {}

  void read_document(const std::string& yaml, const std::string& origin);
  void read_override(const std::string& text);
  void read_override(const std::string& key, const std::string& value, const std::string& place);
  void check_bounds() const;

 private:
  /// A file's lines, or one override.
  struct Source {
    std::string name;
    bool has_lines;
    std::map<std::string, std::string> seen = {};  // key to place

    std::string place(const YAML::Node& node) const {
      return has_lines && node.Mark().line >= 0 ? fmt::format("{}:{}", name, node.Mark().line + 1) : name;
    }
  };

  YAML::Node parse(const std::string& yaml, const Source& source) const;
  void read_map(const YAML::Node& map, const std::string& prefix, Source& source);
  void read_field(const Field& field, const YAML::Node& node, const std::string& place);
  [[noreturn]] void fail_unknown(const std::string& key, const std::string& place) const;

  FieldList list_;
  std::map<std::string, std::string> places_;  // key to the place that set it last
};

YAML::Node Loader::parse(const std::string& yaml, const Source& source) const {
  try {
    const auto document = only_document(yaml);
    if (!document) fail(source.name, "found more than one YAML document, expected one");
    return *document;
  } catch (const YAML::Exception& error) {
    const bool at_line = source.has_lines && error.mark.line >= 0;
    const bool glob = error.msg.find("anchor") != std::string::npos || error.msg.find("alias") != std::string::npos;
    const char* hint = glob ? " (text that starts with * or & needs quotes)" : "";
    fail(at_line ? fmt::format("{}:{}", source.name, error.mark.line + 1) : source.name,
         fmt::format("found text that is no YAML: {}{}", error.msg, hint));
  }
}

void Loader::read_document(const std::string& yaml, const std::string& origin) {
  Source source{origin, true};
  const YAML::Node root = parse(yaml, source);
  if (root.IsNull()) fail(origin, "found no settings, expected a map such as 'trainer: {steps: 100}'");
  if (!root.IsMap()) {
    fail(source.place(root), fmt::format("found a {}, expected a map of settings such as 'trainer: {{steps: 100}}'",
                                         root.IsSequence() ? "list" : "single value"));
  }
  read_map(root, "", source);
}

void Loader::read_map(const YAML::Node& map, const std::string& prefix, Source& source) {
  for (const auto& item : map) {
    const YAML::Node& value = item.second;
    const std::string place = source.place(item.first);
    if (!item.first.IsScalar()) fail(place, fmt::format("{}found a key that is not a name", prefix));
    const std::string key = prefix + item.first.Scalar();
    const auto [earlier, is_new] = source.seen.emplace(key, place);
    if (!is_new) fail(place, fmt::format("{}: found a second time, first at {}", key, earlier->second));
    if (const Field* field = list_.field(key)) {
      read_field(*field, value, place);
    } else if (list_.section(key) == nullptr) {
      fail_unknown(key, place);
    } else if (value.IsMap()) {
      read_map(value, key + ".", source);
    } else if (!value.IsNull()) {  // a section whose keys are all commented out says nothing
      fail(place, fmt::format("{}: found {}, expected a map: {} is a section", key,
                              value.IsSequence() ? "a list" : fmt::format("'{}'", value.Scalar()), key));
    }
  }
}

void Loader::read_field(const Field& field, const YAML::Node& node, const std::string& place) {
  try {
    read_value(node, field.value);
  } catch (const ValueError& error) {
    fail(place, fmt::format("{}: {}", field.key, error.text));
  }
  places_[field.key] = place;
}

void Loader::fail_unknown(const std::string& key, const std::string& place) const {
  std::vector<std::string> names;
  for (const Section& section : list_.sections) names.push_back(section.key);
  for (const Field& field : list_.fields) names.push_back(field.key);
  const std::string nearest = nearest_name(key, names);
  if (!nearest.empty()) fail(place, fmt::format("{}: unknown setting, did you mean {}?", key, nearest));

  const size_t dot = key.rfind('.');
  const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
  std::string known;
  for (const std::string& name : names) {
    const size_t name_dot = name.rfind('.');
    const std::string parent = name_dot == std::string::npos ? "" : name.substr(0, name_dot);
    if (parent == section) known += (known.empty() ? "" : ", ") + name.substr(name_dot + 1);
  }
  if (known.empty()) fail(place, fmt::format("{}: unknown setting; there is no section {}", key, section));
  fail(place, fmt::format("{}: unknown setting; {} has {}", key, section.empty() ? "the top level" : section, known));
}

void Loader::read_override(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail("override " + text, "found no key=value, expected an override such as trainer.steps=100");
  }
  read_override(trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)), "override " + text);
}

void Loader::read_override(const std::string& key, const std::string& value, const std::string& place) {
  Source source{place, false};
  // What starts like a YAML list, map or quoted string is one. All else is taken as it stands, so that globs, colons
  // and the like need no second quoting inside the shell's.
  const bool is_yaml = !value.empty() && std::string("[{\"'").find(value[0]) != std::string::npos;
  const YAML::Node node = is_yaml ? parse(value, source) : YAML::Node(value);
  if (const Field* field = list_.field(key)) return read_field(*field, node, place);
  if (list_.section(key) == nullptr) fail_unknown(key, place);
  if (!node.IsMap()) fail(place, fmt::format("{} is a section, expected one of its keys ({}.…=…) or a map", key, key));
  read_map(node, key + ".", source);
}

void Loader::check_bounds() const {
  for (const Field& field : list_.fields) {
    const std::string violation = bound_violation(field.value, field.bound);
    if (violation.empty()) continue;
    const auto place = places_.find(field.key);
    fail(place == places_.end() ? "default" : place->second, fmt::format("{}: {}", field.key, violation));
  }
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (std::filesystem::is_directory(status)) fail(file.string(), "found a folder, expected a YAML file of settings");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream.is_open() && stream.peek() != std::ifstream::traits_type::eof()) text << stream.rdbuf();
  if (!stream.is_open() || stream.bad() || text.bad()) {
    const std::string reason = errno == 0 ? "unknown reason" : std::generic_category().message(errno);
    fail(file.string(), fmt::format("cannot be read ({}), expected a YAML file of settings", reason));
  }
  return text.str();
}

}  // namespace

Settings load_settings(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return parse_settings(read_text(file), file.string(), overrides);
}

Settings parse_settings(const std::string& yaml, const std::string& origin, const std::vector<std::string>& overrides) {
  Settings settings;
  Loader loader(settings);
  loader.read_document(yaml, origin);
  for (const std::string& text : overrides) loader.read_override(text);
  loader.check_bounds();
  const std::string conflict = find_conflict(settings);
  if (!conflict.empty()) fail(origin, conflict);
  return settings;
}

void apply_override(Settings& settings, const std::string& key, const std::string& value) {
  Settings changed = settings;
  Loader loader(changed);
  loader.read_override(trimmed(key), trimmed(value), fmt::format("override {}={}", key, value));
  loader.check_bounds();
  settings = std::move(changed);
}

}  // namespace foretime::configs
