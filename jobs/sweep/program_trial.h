#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "configs/yaml_reader.h"
#include "jobs/queue/job.h"

/// Makes trials that run a user's program instead of `foretime train`, like W&B's `program` and `command`.
namespace foretime::jobs {

/// Describes the program and command line of a sweep's trials.
struct ProgramTrial {
  std::string program;               // path below an agent's --programs; may be empty if `command` has no ${program}
  std::vector<std::string> command;  // words; arguments_of() replaces those of the form ${…}
  std::vector<std::string> nested;   // keys that become JSON objects: "optimizer" for the parameter optimizer.lr
  std::string stdout_pattern = {};   // Python's regular expression that finds the metric in stdout; empty: none
  bool operator==(const ProgramTrial&) const = default;
};

/// Returns whether a trial's settings (JobSpec::settings, SweepSpec::settings) describe a program.
bool runs_program(const std::string& settings);
/// Returns the settings (JSON) of trials that run this program.
std::string to_settings(const ProgramTrial& trial);
/// Parses the text of to_settings(). Throws JobsError for other text and for a word with a word_fault().
ProgramTrial parse_program(const std::string& settings);

/// Returns the JobSpec::program of the trials: the first 8 hexadecimal digits of the SHA-256 of ProgramTrial::program.
std::string program_key(const ProgramTrial& trial);

/// Returns the command of a sweep file without one, as in W&B: ${env} ${interpreter} ${program} ${args}.
std::vector<std::string> default_command();
/// Returns why a word of a command is invalid (an unknown or misplaced ${…}, or a zero byte); empty if it is valid.
std::string word_fault(const std::string& word);

/// Returns a value of a sweep file in the form that trials store: numbers and text unchanged, text as a JSON string if
/// it would be read as another type, all other values as JSON. Words follow YAML 1.1, as in W&B: yes is true. Throws
/// configs::SettingsError for a map whose keys are no text.
std::string parameter_text(const configs::YamlEntry& entry);
/// Parses the text of parameter_text() into null, bool, number, text, list or map.
nlohmann::json value_of(const std::string& text);

/// Returns the values that the program receives, such as {"optimizer": {"lr": 0.1}, "epochs": 3}.
nlohmann::json values_of(const ProgramTrial& trial, const Parameters& parameters);

/// Returns the command line of a trial as W&B makes it: the words of `command` with each `${…}` of
/// docs/reference/sweep-files.md replaced: ${program} by `program`, ${args_json_file} by `json_file`, ${envvar:NAME} by
/// environment("NAME"). Values are written as in Python: True, None, [1, 'a']. Throws JobsError if `environment`
/// returns null.
std::vector<std::string> arguments_of(const ProgramTrial& trial, const Parameters& parameters,
                                      const std::string& program, const std::string& json_file,
                                      const std::function<const char*(const char*)>& environment);

}  // namespace foretime::jobs
