#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "configs/yaml_reader.h"
#include "jobs/queue/job.h"

/// Trials that run a program of the user's own instead of `foretime train`: W&B's `program` and `command`.
namespace foretime::jobs {

struct ProgramTrial {
  std::string program;  // relative to an agent's --programs; may be empty where `command` names no ${program}
  std::vector<std::string> command;  // words; some are ${…}, see arguments
  std::vector<std::string> nested;   // keys below which parameters stand in JSON: "optimizer" of optimizer.lr
  bool operator==(const ProgramTrial&) const = default;
};

/// Whether settings of a trial (JobSpec::settings, SweepSpec::settings) are those of a program.
bool runs_program(const std::string& settings);
std::string to_settings(const ProgramTrial& trial);
/// Throws JobsError.
ProgramTrial parse_program(const std::string& settings);

/// Returns JobSpec::program of its trials: the first 8 hexadecimal digits of the SHA-256 of the program's path as
/// written, which may be empty.
std::string program_key(const ProgramTrial& trial);

/// W&B's default where a sweep file has no command.
std::vector<std::string> default_command();
/// Empty, or why a word of a command cannot be.
std::string word_fault(const std::string& word);

/// A value of a sweep file as trials keep it: as it stands, in quotes where text would read back as something else,
/// lists and maps as JSON. Words are those of YAML 1.1, as W&B reads them: yes is true.
std::string parameter_text(const configs::YamlEntry& entry);
/// What such a text means: null, bool, number, text, list or map.
nlohmann::json value_of(const std::string& text);

/// {"optimizer": {"lr": 0.1}, "epochs": 3}
nlohmann::json values_of(const ProgramTrial& trial, const Parameters& parameters);

/// The command line, as W&B makes it. Words that are filled in: ${env} /usr/bin/env, ${interpreter} python3,
/// ${program},
/// ${args} --key=value …, ${args_no_hyphens} key=value …, ${args_no_equals} --key value …, ${args_no_boolean_flags}
/// --key for true and nothing for false, ${args_json}, ${args_json_file} (`json_file`), and, inside of words as well,
/// ${envvar:NAME} of `environment`. Values are written as Python does:
/// True, None, [1, 'a']. Throws JobsError where an environment variable is missing.
std::vector<std::string> arguments_of(const ProgramTrial& trial, const Parameters& parameters,
                                      const std::string& program, const std::string& json_file,
                                      const std::function<const char*(const char*)>& environment);

}  // namespace foretime::jobs
