#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

/// Reads YAML files of sweeps, fine-tunings and experiments. Every message names place, key, what was found and what
/// was expected.
namespace foretime::configs {

/// A value with its key's full name and the place (`file:line`, or an override) that messages name.
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
/// Parses one YAML document, a null node where the text holds none. Throws SettingsError.
YAML::Node parse_document(const std::string& yaml, const std::string& origin);
/// Parses one YAML document, which must be a map, with its merge keys (`<<: *base`, YAML 1.1) carried out. Throws
/// SettingsError; also for more than kMostYamlBytes of text, nesting deeper than kMostYamlLevels, and more than
/// kMostYamlValues values, where an alias counts as everything that it stands for.
YAML::Node parse_yaml(const std::string& yaml, const std::string& origin);
/// Reads the text of a file, or what a pipe or device delivers. Throws SettingsError, also for more than
/// kMostYamlBytes, of which it reads no more.
std::string read_yaml_text(const std::filesystem::path& file);
/// `file:line`; of an override, and of a node without a mark, the origin alone.
std::string place_of(const YAML::Node& node, const std::string& origin);

/// The items of a map. A key that is not in `known` is refused with the nearest known one (any is taken where `known`
/// is empty), a key that stands there twice too. The entries' keys start with `prefix`, their places with `origin`.
std::vector<YamlEntry> items_of(const YamlEntry& map, const std::string& origin, const std::string& prefix,
                                const std::vector<std::string>& known);

int64_t integer_in(const YamlEntry& entry, int64_t low, int64_t high);
uint64_t seed_in(const YamlEntry& entry);
double number_in(const YamlEntry& entry);
bool flag_in(const YamlEntry& entry);
/// Printable and not empty, at most `limit` bytes.
std::string text_in(const YamlEntry& entry, size_t limit);
std::string choice_in(const YamlEntry& entry, const std::vector<std::string>& choices);
/// Whether it is written as an integer (W&B tells int_uniform from uniform by that).
bool is_integer(const YAML::Node& node);

/// A value as configs::apply_override takes it: numbers and words as they stand, lists in brackets, quoted text in
/// quotes where it would mean something else. Python's True and False are true and false.
std::string override_text(const YamlEntry& entry);

}  // namespace foretime::configs
