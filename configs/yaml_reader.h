#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

/// Readers of YAML files of sweeps, fine-tunings and experiments. SettingsErrors have place, key, found and expected.
namespace foretime::configs {

/// Holds a value with its key's full name and the place (`file:line`, or an override) for messages.
struct YamlEntry {
  std::string key;
  YAML::Node node;
  std::string place;
};

/// Throws SettingsError: `place: key: text`.
[[noreturn]] void fail(const YamlEntry& entry, const std::string& text);

constexpr size_t kMostYamlBytes = 1 << 20;   // largest text, in bytes
constexpr int kMostYamlLevels = 32;          // deepest nesting
constexpr int64_t kMostYamlValues = 100000;  // largest number of values; an alias counts as all values that it repeats
/// Parses one YAML document; returns a null node if the text is empty. `origin` names the text in messages. Throws
/// SettingsError for text that is no YAML or holds several documents.
YAML::Node parse_document(const std::string& yaml, const std::string& origin);
/// Parses one YAML document, which must be a map, and resolves its merge keys (`<<: *base`, YAML 1.1). Throws
/// SettingsError, also for a text beyond kMostYamlBytes, kMostYamlLevels or kMostYamlValues.
YAML::Node parse_yaml(const std::string& yaml, const std::string& origin);
/// Returns the text of a file, pipe or device. Throws StorageError if the storage fails. Throws SettingsError for a
/// folder, a file that cannot be read, and more than kMostYamlBytes, without reading the rest.
std::string read_yaml_text(const std::filesystem::path& file);
/// Returns `ORIGIN:LINE` of a node; `origin` alone for an override and a node without a line.
std::string place_of(const YAML::Node& node, const std::string& origin);

/// Returns the items of a map. Throws SettingsError if it is no map, for a key that occurs twice, and for one that is
/// not in `known`, with the nearest known one (an empty `known` allows every key). Keys begin with `prefix`, places
/// with `origin`.
std::vector<YamlEntry> items_of(const YamlEntry& map, const std::string& origin, const std::string& prefix,
                                const std::vector<std::string>& known);

/// Returns the integer of an entry. Throws SettingsError unless it is between `low` and `high`.
int64_t integer_in(const YamlEntry& entry, int64_t low, int64_t high);
/// Returns a seed, an unsigned integer of 64 bits. Throws SettingsError for other values.
uint64_t seed_in(const YamlEntry& entry);
/// Returns a finite number. Throws SettingsError for other values.
double number_in(const YamlEntry& entry);
/// Returns the truth value of true, false, True or False. Throws SettingsError for other values.
bool flag_in(const YamlEntry& entry);
/// Returns a text. Throws SettingsError if it is empty, longer than `limit` bytes, or has control characters.
std::string text_in(const YamlEntry& entry, size_t limit);
/// Returns a word of `choices`. Throws SettingsError for other values, with the nearest word.
std::string choice_in(const YamlEntry& entry, const std::vector<std::string>& choices);
/// Returns whether a value is written as an integer of 64 bits (W&B's int_uniform, not uniform), without quotes.
bool is_integer(const YAML::Node& node);

/// Returns a value in the form of configs::apply_override: numbers and words literally, lists in brackets, text in
/// quotes if it would mean something else. Python's True and False become true and false. Throws SettingsError for a
/// map, and for a list of other things than single values.
std::string override_text(const YamlEntry& entry);

}  // namespace foretime::configs
