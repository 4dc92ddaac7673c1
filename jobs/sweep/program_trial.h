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
  std::string program;               // relative to an agent's --programs; may be empty if `command` has no ${program}
  std::vector<std::string> command;  // words; some are ${…}, see arguments_of
  std::vector<std::string> nested;   // keys whose parameters are nested in JSON: "optimizer" of optimizer.lr
  std::string stdout_pattern = {};   // regular expression of Python for the metric in printed lines; empty: none
  bool operator==(const ProgramTrial&) const = default;
};

/// Returns whether a trial's settings (JobSpec::settings, SweepSpec::settings) describe a program.
bool runs_program(const std::string& settings);
std::string to_settings(const ProgramTrial& trial);
/// Parses the text of to_settings(). Throws JobsError.
ProgramTrial parse_program(const std::string& settings);

/// Returns the JobSpec::program of the trials: the first 8 hexadecimal digits of the SHA-256 of the program's path as
/// written, which may be empty.
std::string program_key(const ProgramTrial& trial);

/// Returns W&B's default for a sweep file without a command.
std::vector<std::string> default_command();
/// Returns why a word of a command is invalid; empty if it is valid.
std::string word_fault(const std::string& word);

/// Returns a value of a sweep file in the form that trials store: unchanged text, in quotes if unquoted text would be
/// read as another type; lists and maps as JSON. Words follow YAML 1.1, as in W&B: yes is true.
std::string parameter_text(const configs::YamlEntry& entry);
/// Parses the text of parameter_text(): null, bool, number, text, list or map.
nlohmann::json value_of(const std::string& text);

/// Returns the values that the program receives: {"optimizer": {"lr": 0.1}, "epochs": 3}
nlohmann::json values_of(const ProgramTrial& trial, const Parameters& parameters);

/// Returns the command line, made as W&B makes it. Replaces these words:
/// - ${env}: /usr/bin/env
/// - ${interpreter}: python3
/// - ${program}: `program`
/// - ${args}: --key=value …
/// - ${args_no_hyphens}: key=value …
/// - ${args_no_equals}: --key value …
/// - ${args_no_boolean_flags}: --key for true and nothing for false
/// - ${args_json}: JSON; ${args_json_file}: `json_file`
/// - ${envvar:NAME}, also inside of words: a variable of `environment`
///
/// Values are written as Python does: True, None, [1, 'a']. Throws JobsError if an environment variable is missing.
std::vector<std::string> arguments_of(const ProgramTrial& trial, const Parameters& parameters,
                                      const std::string& program, const std::string& json_file,
                                      const std::function<const char*(const char*)>& environment);

}  // namespace foretime::jobs
