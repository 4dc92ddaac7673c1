#include "configs/yaml_reader.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>

#include "base/files.h"
#include "base/numbers.h"
#include "base/text.h"
#include "configs/fields.h"
#include "configs/settings_error.h"

namespace foretime::configs {
namespace {

/// Overrides are their own place: they have no lines.
bool is_override(const std::string& origin) { return origin.starts_with("override "); }

std::string kind_of(const YAML::Node& node) {
  if (node.IsScalar()) return fmt::format("'{}'", node.Scalar().substr(0, 100));
  if (node.IsSequence()) return fmt::format("a list of {}", node.size());
  return node.IsMap() ? "a map" : "nothing";
}

void check_size(const YAML::Node& node, const std::string& origin, int depth, int64_t& count) {
  if (++count > kMostYamlValues)
    throw SettingsError("{}: found more than {} values (an alias counts as all values that it repeats)", origin,
                        kMostYamlValues);
  if (depth > kMostYamlLevels)
    throw SettingsError("{}: found more than {} nested levels", place_of(node, origin), kMostYamlLevels);
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) check_size(item, origin, depth + 1, count);
  } else if (node.IsMap()) {
    for (const auto& item : node) check_size(item.second, origin, depth + 1, count);
  }
}

void check_bytes(size_t found, const std::string& origin) {
  if (found > kMostYamlBytes)
    throw SettingsError("{}: found {} bytes or more, expected a YAML file of at most {}", origin, found,
                        kMostYamlBytes);
}

/// Reads a pipe or device, which has no size.
std::string read_stream(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostYamlBytes + 1, '\0');
  stream.read(text.data(), text.size());
  text.resize(stream.gcount());
  check_bytes(text.size(), file.string());
  return text;
}

/// Replaces `<<`, whose value is a map or a list of maps, by those of their items that the map does not have itself; an
/// earlier map of a list wins over a later one.
void merge_maps(YAML::Node node, const std::string& origin) {
  if (node.IsSequence())
    for (const YAML::Node& item : node) merge_maps(item, origin);
  if (!node.IsMap()) return;
  for (const auto& item : node) merge_maps(item.second, origin);
  const YAML::Node merged = std::as_const(node)["<<"];
  if (!merged) return;
  std::vector<YAML::Node> maps;
  if (merged.IsSequence()) {
    for (const YAML::Node& map : merged) maps.push_back(map);
  } else {
    maps.push_back(merged);
  }
  node.remove("<<");
  for (const YAML::Node& map : maps) {
    if (!map.IsMap())
      throw SettingsError("{}: <<: found {}, expected a map or a list of maps", place_of(merged, origin), kind_of(map));
    for (const auto& item : map)
      if (item.first.IsScalar() && !std::as_const(node)[item.first.Scalar()])
        node.force_insert(item.first, item.second);
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

/// Sees whether a document holds anything.
class Glance : public YAML::EventHandler {
 public:
  bool empty() const { return empty_; }

  void OnDocumentStart(const YAML::Mark&) override { empty_ = true; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { empty_ = false; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override { empty_ = false; }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    empty_ = false;
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    empty_ = false;
  }
  void OnMapEnd() override {}

 private:
  bool empty_ = true;
};

/// The document of a YAML text, a null node where it holds none; nothing where it holds several. In some damaged texts
/// yaml-cpp finds documents without end (YAML::LoadAll does not return): here two are enough.
std::optional<YAML::Node> only_document(const std::string& yaml) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  Glance glance;
  if (!parser.HandleNextDocument(glance) || glance.empty()) return YAML::Node();
  if (parser.HandleNextDocument(glance) && !glance.empty()) return std::nullopt;
  return YAML::Load(yaml);
}

bool has_meaning_at_start(const std::string& text) {
  return text.empty() || std::string("[{\"' \t").find(text.front()) != std::string::npos || text.back() == ' ' ||
         text.back() == '\t' || text.find('\n') != std::string::npos;
}

/// Returns the kind of a file without text; null for text.
const char* binary_kind(const std::string& text) {
  if (text.starts_with("PK\3\4")) return "a zip archive";
  if (text.starts_with("\x1f\x8b")) return "gzip data";
  return text.find('\0') == std::string::npos ? nullptr : "binary data";
}

/// Returns whether a line, counted from 0, is indented by a tab, which YAML does not allow.
bool begins_with_tab(const std::string& yaml, int line) {
  std::istringstream lines(yaml);
  std::string text;
  for (int i = 0; i <= line; ++i) std::getline(lines, text);
  return text.substr(0, text.find_first_not_of(" \t")).find('\t') != std::string::npos;
}

}  // namespace

std::string place_of(const YAML::Node& node, const std::string& origin) {
  return is_override(origin) || node.Mark().line < 0 ? origin : fmt::format("{}:{}", origin, node.Mark().line + 1);
}

void fail(const YamlEntry& entry, const std::string& text) {
  throw SettingsError("{}: {}{}{}", entry.place, entry.key, entry.key.empty() ? "" : ": ", text);
}

std::string read_yaml_text(const std::filesystem::path& file) {
  if (files().is_folder(file)) throw SettingsError("{}: found a folder, expected a YAML file", file.string());
  std::error_code missing;  // reading says so
  if (std::filesystem::is_other(file, missing)) return read_stream(file);
  try {
    if (files().exists(file)) check_bytes(files().size(file), file.string());
    return files().read(file);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError& error) {
    throw SettingsError("{}, expected a YAML file", error.what());
  }
}

YAML::Node parse_document(const std::string& yaml, const std::string& origin) {
  if (const char* const found = binary_kind(yaml))
    throw SettingsError("{}: found {}, expected a YAML file", origin, found);
  try {
    const auto document = only_document(yaml);
    if (!document) throw SettingsError("{}: found more than one YAML document, expected one", origin);
    return *document;
  } catch (const YAML::Exception& error) {
    const bool glob = error.msg.find("anchor") != std::string::npos || error.msg.find("alias") != std::string::npos;
    throw SettingsError("{}{}: found text that is no YAML: {}{}", origin,
                        is_override(origin) ? "" : fmt::format(":{}", std::max(error.mark.line, 0) + 1), error.msg,
                        glob                                     ? " (text that starts with * or & needs quotes)"
                        : begins_with_tab(yaml, error.mark.line) ? " (the line begins with a tab, expected blanks)"
                                                                 : "");
  }
}

YAML::Node parse_yaml(const std::string& yaml, const std::string& origin) {
  check_bytes(yaml.size(), origin);
  const YAML::Node root = parse_document(yaml, origin);
  if (!root.IsMap()) throw SettingsError("{}: found {}, expected a map", origin, kind_of(root));
  int64_t count = 0;
  check_size(root, origin, 0, count);
  merge_maps(root, origin);
  return root;
}

std::vector<YamlEntry> items_of(const YamlEntry& map, const std::string& origin, const std::string& prefix,
                                const std::vector<std::string>& known) {
  if (!map.node.IsMap()) fail(map, fmt::format("found {}, expected a map", kind_of(map.node)));
  std::vector<YamlEntry> items;
  std::map<std::string, std::string> seen;
  for (const auto& item : map.node) {
    const std::string place = place_of(item.first, origin);
    if (!item.first.IsScalar())
      fail({prefix.substr(0, prefix.rfind('.')), item.first, place}, "found a key that is not a name");
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
  if (std::ranges::find(choices, text) != choices.end()) return text;
  fail(entry, not_among(fmt::format("'{}'", text.substr(0, 100)), text, choices));
}

bool is_integer(const YAML::Node& node) {
  if (!node.IsScalar() || node.Tag() == "!") return false;
  return parse_number<int64_t>(without_plus(node.Scalar())).has_value();
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
