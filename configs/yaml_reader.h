#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

/// Readers of YAML files of sweeps, fine-tunings and experiments. Every message has place, key, found and expected
/// value.
namespace foretime::configs {

/// Holds a value with its key's full name and the place (`file:line`, or an override) for messages.
struct YamlEntry {
  std::string key;
  YAML::Node node;
  std::string place;
};

/// Throws SettingsError: `place: key: text`.
[[noreturn]] void fail(const YamlEntry& entry, const std::string& text);

constexpr size_t kMostYamlBytes = 1 << 20;
constexpr int kMostYamlLevels = 32;
constexpr int64_t kMostYamlValues = 100000;
/// Parses one YAML document; returns a null node if the text is empty. Throws SettingsError.
YAML::Node parse_document(const std::string& yaml, const std::string& origin);
/// Parses one YAML document, which must be a map, and resolves its merge keys (`<<: *base`, YAML 1.1). Throws
/// SettingsError, also for more than kMostYamlBytes of text, nesting deeper than kMostYamlLevels, and more than
/// kMostYamlValues values, where an alias counts as all values that it repeats.
YAML::Node parse_yaml(const std::string& yaml, const std::string& origin);
/// Reads the text of a file, pipe or device. Throws StorageError if the storage fails, else SettingsError, also for
/// more than kMostYamlBytes, without reading the rest.
std::string read_yaml_text(const std::filesystem::path& file);
/// Returns `file:line`; `origin` alone for an override and a node without a mark.
std::string place_of(const YAML::Node& node, const std::string& origin);

/// Returns the items of a map. Throws SettingsError for a key that is not in `known`, with the nearest known one (an
/// empty `known` allows every key), and for a key that occurs twice. The entries' keys start with `prefix`, their
/// places with `origin`.
std::vector<YamlEntry> items_of(const YamlEntry& map, const std::string& origin, const std::string& prefix,
                                const std::vector<std::string>& known);

/// Returns the integer of an entry. Throws SettingsError unless it is between `low` and `high`.
int64_t integer_in(const YamlEntry& entry, int64_t low, int64_t high);
/// Returns a seed, an integer of 64 bits without sign. Throws SettingsError for other values.
uint64_t seed_in(const YamlEntry& entry);
/// Returns a finite number. Throws SettingsError for other values.
double number_in(const YamlEntry& entry);
/// Returns true or false. Throws SettingsError for other values.
bool flag_in(const YamlEntry& entry);
/// Returns a text that is printable, not empty, and at most `limit` bytes long.
std::string text_in(const YamlEntry& entry, size_t limit);
/// Returns a word of `choices`. Throws SettingsError for other values.
std::string choice_in(const YamlEntry& entry, const std::vector<std::string>& choices);
/// Returns whether a number is written as an integer (which distinguishes W&B's int_uniform from uniform).
bool is_integer(const YAML::Node& node);

/// Returns a value in the form of configs::apply_override: numbers and words literally, lists in brackets, text in
/// quotes if it would mean something else. Python's True and False become true and false.
std::string override_text(const YamlEntry& entry);

}  // namespace foretime::configs
