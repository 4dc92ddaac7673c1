#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/fields.h"
#include "configs/load.h"

namespace foretime::configs {
namespace {

constexpr size_t kLineWidth = 120;

std::string indent_of(const std::string& key) {
  const auto depth = std::count(key.begin(), key.end(), '.');
  return std::string(2 * depth, ' ');
}

/// A list too wide for one line goes one element a line.
std::string lines_of(const Field& field) {
  const std::string indent = indent_of(field.key);
  std::string line = fmt::format("{}{}: {}\n", indent, field.name(), write_value(field.value));
  const auto* list = std::get_if<std::vector<std::string>*>(&field.value);
  if (list == nullptr || line.size() <= kLineWidth) return line;
  std::string lines = fmt::format("{}{}:\n", indent, field.name());
  for (const std::string& item : **list) lines += fmt::format("{}  - {}\n", indent, write_string(item));
  return lines;
}

/// Text for a cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string names_of(const Field& field) {
  return fmt::format("{} of `{}`", field.bound.filled ? "one or more" : "one",
                     fmt::join(split_words(field.words()), "`, `"));
}

std::string type_of(const Field& field) {
  std::string type = type_name(field.value);
  for (const char* article : {"a ", "an "})
    if (type.starts_with(article)) return type.substr(type.find(' ') + 1);
  return type;
}

std::string row_of(const Field& field) {
  const std::string bound = field.words().empty() ? cell(field.bound.text()) : names_of(field);
  return fmt::format("| `{}` | {} | `{}` | {} | {} |\n", field.name(), type_of(field), cell(write_value(field.value)),
                     bound, cell(field.meaning));
}

constexpr const char* kReferenceHead = R"(# Settings

Every key of a settings file. This page is printed by `foretime config --reference`; the keys, their meaning and
their bounds come from `configs/settings_table.h`.

A settings file is a YAML map of the sections below; what it leaves out keeps its default. Any key can be overridden
on the command line by its full name: `foretime train configs/quickstart.yaml optimizer.learning_rate=3e-4
data.train=[a.npz,b.npz]`. A value that starts with `[`, `{`, `"` or `'` is read as YAML, any other value
literally. A single string means a list of one. Unknown keys, keys given twice, values out of bounds and keys of
model types that are not used are refused.
)";

}  // namespace

std::string to_yaml(const Settings& settings) {
  Settings copy = settings;
  const FieldList list = list_fields(copy);
  std::string yaml;
  std::string open;  // the section that the last line belongs to, with a dot at its end
  for (const Field& field : list.fields) {
    if (!is_read(settings, field.key)) continue;
    // Open every section on the way to this field that is not open already.
    for (size_t dot = field.key.find('.'); dot != std::string::npos; dot = field.key.find('.', dot + 1)) {
      const std::string section = field.key.substr(0, dot);
      if (open.starts_with(section + ".")) continue;
      yaml += fmt::format("{}{}:\n", indent_of(section), section.substr(section.rfind('.') + 1));
    }
    open = field.section() + ".";
    yaml += lines_of(field);
  }
  return yaml;
}

std::string reference_page() {
  Settings defaults;
  const FieldList list = list_fields(defaults);
  std::string page = kReferenceHead;
  for (const Section& section : list.sections) {
    page +=
        fmt::format("\n## {}\n\n{}\n\n| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n",
                    section.key, section.meaning);
    for (const Field& field : list.fields)
      if (field.section() == section.key) page += row_of(field);
  }
  return page;
}

std::vector<std::string> all_keys() {
  Settings defaults;
  std::vector<std::string> keys;
  for (const Field& field : list_fields(defaults).fields) keys.push_back(field.key);
  return keys;
}

}  // namespace foretime::configs
