#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

/// Reading of sweep files: every message names place, key, what was found and what was expected.
namespace foretime::jobs {

/// A value with its key's full name and the place (`file:line`, or an override) that messages name.
struct Entry {
  std::string key;
  YAML::Node node;
  std::string place;
};

/// Throws SweepError: `place: key: text`.
[[noreturn]] void fail(const Entry& entry, const std::string& text);

/// Parses one YAML document, which must be a map. Throws SweepError; also for more than kMaxBytes of text, nesting
/// deeper than kMaxDepth, and more than kMaxNodes values, where an alias counts as everything that it stands for.
constexpr size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 32;
constexpr int64_t kMaxNodes = 100000;
YAML::Node parse_yaml(const std::string& yaml, const std::string& origin);
/// The text of a file of at most kMaxBytes.
std::string read_sweep_text(const std::string& file);

/// The items of a map. A key that is not in `known` is refused with the nearest known one (any is taken where `known`
/// is empty), a key that stands there twice too. The entries' keys start with `prefix`, their places with `origin`.
std::vector<Entry> items_of(const Entry& map, const std::string& origin, const std::string& prefix,
                            const std::vector<std::string>& known);

int64_t integer_in(const Entry& entry, int64_t low, int64_t high);
uint64_t seed_in(const Entry& entry);
double number_in(const Entry& entry);
bool flag_in(const Entry& entry);
/// Printable and not empty, at most `limit` bytes.
std::string text_in(const Entry& entry, size_t limit);
std::string choice_in(const Entry& entry, const std::vector<std::string>& choices);
/// Whether it is written as an integer (W&B tells int_uniform from uniform by that).
bool is_integer(const YAML::Node& node);

/// A value as configs::apply_override takes it: numbers and words as they stand, lists in brackets, quoted text in
/// quotes where it would mean something else. Python's True and False are true and false.
std::string override_text(const Entry& entry);

}  // namespace foretime::jobs
