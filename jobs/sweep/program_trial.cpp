#include "jobs/sweep/program_trial.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/numbers.h"
#include "configs/load.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kFilledWords = {
    "env",       "interpreter",   "program", "args", "args_no_hyphens", "args_no_equals", "args_no_boolean_flags",
    "args_json", "args_json_file"};
constexpr std::string_view kEnvironment = "envvar:";

/// The name in ${name}; empty where a word is none.
std::string name_in(const std::string& word) {
  const bool filled = word.size() > 3 && word.starts_with("${") && word.ends_with("}");
  return filled ? word.substr(2, word.size() - 3) : "";
}

/// The ${name}s in a text, each with the place of its dollar sign. One that is not closed is none.
std::vector<std::pair<size_t, std::string>> names_within(const std::string& text) {
  std::vector<std::pair<size_t, std::string>> names;
  for (size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
    const size_t end = text.find('}', at);
    if (end != std::string::npos) names.emplace_back(at, text.substr(at + 2, end - at - 2));
  }
  return names;
}

/// `word` with each ${envvar:NAME} filled in. Throws JobsError where a variable is missing.
std::string with_variables(std::string word, const std::function<const char*(const char*)>& environment) {
  const auto names = names_within(word);
  for (auto found = names.rbegin(); found != names.rend(); ++found) {
    const auto& [at, name] = *found;
    const auto variable = name.substr(std::min(name.size(), kEnvironment.size()));
    const char* value = environment(variable.c_str());
    if (value == nullptr)
      throw JobsError("command: found ${{{}}}, and the agent has no environment variable {}", name, variable);
    word.replace(at, name.size() + 3, value);
  }
  return word;
}

/// A word of a file that is not in quotes.
Json plain_value(const std::string& text) {
  for (const char* word : {"~", "null", "Null", "NULL", ""})
    if (text == word) return nullptr;
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    if (text == word) return true;
  for (const char* word : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    if (text == word) return false;
  if (const auto whole = parse_number<int64_t>(without_plus(text))) return *whole;
  const auto number = parse_number<double>(without_plus(text));
  return number && std::isfinite(*number) ? Json(*number) : Json(text);  // JSON has neither inf nor nan
}

Json value_of_node(const configs::YamlEntry& entry, const YAML::Node& node) {
  if (node.IsNull()) return nullptr;
  if (node.IsScalar()) return node.Tag() == "!" ? Json(node.Scalar()) : plain_value(node.Scalar());
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) list.push_back(value_of_node(entry, item));
    return list;
  }
  if (!node.IsMap()) configs::fail(entry, "found no value");
  Json map = Json::object();
  for (const auto& item : node) {
    if (!item.first.IsScalar()) configs::fail(entry, "found a map whose keys are not text");
    map[item.first.Scalar()] = value_of_node(entry, item.second);
  }
  return map;
}

/// Returns a value as Python's repr writes it.
std::string python_text(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
    std::string quoted(1, quote);
    for (const char c : text) {
      if (c == quote || c == '\\') quoted += '\\';
      quoted += c == '\n' ? "\\n" : std::string(1, c);
    }
    return quoted + quote;
  }
  std::vector<std::string> items;
  if (value.is_array()) {
    for (const Json& item : value) items.push_back(python_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) items.push_back(python_text(key) + ": " + python_text(item));
    return fmt::format("{{{}}}", fmt::join(items, ", "));
  }
  return value.dump();
}

/// Returns a value as it is written on a command line.
std::string argument_text(const std::string& text) {
  const Json value = value_of(text);
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? text : python_text(value);  // numbers are unchanged
}

}  // namespace

bool runs_program(const std::string& settings) { return settings.starts_with("{\"command\":"); }

std::string to_settings(const ProgramTrial& trial) {
  Json json{{"command", trial.command}, {"nested", trial.nested}, {"program", trial.program}};
  if (!trial.stdout_pattern.empty()) json["metric_from"] = trial.stdout_pattern;
  return json.dump();
}

ProgramTrial parse_program(const std::string& settings) {
  const Json json = Json::parse(settings, nullptr, false);
  try {
    ProgramTrial trial{json.at("program"), json.at("command"), json.at("nested"),
                       json.value("metric_from", std::string())};
    for (const std::string& word : trial.command)
      if (const auto fault = word_fault(word); !fault.empty()) throw JobsError("command: {}", fault);
    return trial;
  } catch (const Json::exception&) {
    throw JobsError(
        "settings: found no program and command, expected what foretime submit writes of a sweep of a program");
  }
}

std::string program_key(const ProgramTrial& trial) { return content_id(trial.program).substr(0, 8); }

std::vector<std::string> default_command() { return {"${env}", "${interpreter}", "${program}", "${args}"}; }

std::string word_fault(const std::string& word) {
  if (word.find('\0') != std::string::npos) return "found a zero byte";
  const auto is_filled = [](const std::string& name) {
    return std::find(kFilledWords.begin(), kFilledWords.end(), name) != kFilledWords.end();
  };
  for (const auto& [at, name] : names_within(word)) {
    const bool variable = name.starts_with(kEnvironment) && name.size() > kEnvironment.size();
    if (variable || (name == name_in(word) && is_filled(name))) continue;
    if (is_filled(name))
      return fmt::format(
          "found ${{{}}} inside of '{}', expected it as a separate word: "
          "only ${{envvar:NAME}} is filled in inside of a word",
          name, word);
    return fmt::format(
        "found ${{{}}}, expected one of ${{{}}} as a separate word, or ${{envvar:NAME}}; parameters come by ${{args}}",
        name, fmt::join(kFilledWords, "}, ${"));
  }
  return "";
}

std::string parameter_text(const configs::YamlEntry& entry) {
  const Json value = value_of_node(entry, entry.node);
  if (!value.is_string()) return value.is_number() ? entry.node.Scalar() : value.dump();
  const auto text = value.get<std::string>();
  return value_of(text) == value ? text : value.dump();
}

Json value_of(const std::string& text) {
  if (!text.empty() && (text[0] == '[' || text[0] == '{' || text[0] == '"')) {
    Json value = Json::parse(text, nullptr, false);
    if (!value.is_discarded()) return value;
  }
  return plain_value(text);
}

Json values_of(const ProgramTrial& trial, const Parameters& parameters) {
  Json all = Json::object();
  for (const auto& [key, text] : parameters) {
    Json* place = &all;
    std::string rest = key, above;
    for (size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      above += (above.empty() ? "" : ".") + rest.substr(0, dot);
      if (std::find(trial.nested.begin(), trial.nested.end(), above) == trial.nested.end()) break;
      place = &(*place)[rest.substr(0, dot)];
      rest = rest.substr(dot + 1);
    }
    (*place)[rest] = value_of(text);
  }
  return all;
}

std::vector<std::string> arguments_of(const ProgramTrial& trial, const Parameters& parameters,
                                      const std::string& program, const std::string& json_file,
                                      const std::function<const char*(const char*)>& environment) {
  std::vector<std::string> words;
  for (const std::string& word : trial.command) {
    const auto name = name_in(word);
    if (name == "env") {
      words.emplace_back("/usr/bin/env");
    } else if (name == "interpreter") {
      words.emplace_back("python3");
    } else if (name == "program") {
      words.push_back(program);
    } else if (name == "args_json") {
      words.push_back(values_of(trial, parameters).dump());
    } else if (name == "args_json_file") {
      words.push_back(json_file);
    } else if (name.starts_with("args")) {
      for (const auto& [key, text] : parameters) {
        const Json value = value_of(text);
        if (name == "args_no_boolean_flags" && value.is_boolean()) {
          if (value.get<bool>()) words.push_back("--" + key);
        } else if (name == "args_no_equals") {
          words.insert(words.end(), {"--" + key, argument_text(text)});
        } else {
          words.push_back((name == "args_no_hyphens" ? "" : "--") + key + "=" + argument_text(text));
        }
      }
    } else {
      words.push_back(with_variables(word, environment));
    }
  }
  return words;
}

}  // namespace foretime::jobs
