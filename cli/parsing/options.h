#pragma once

#include <string>

#include <CLI/CLI.hpp>

/// Options as most commands declare them. `type_name`: what stands for the value in the help, where it is not its type.
namespace foretime::cli {

template <class T>
CLI::Option* typed_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                          const char* type_name) {
  auto* option = command.add_option(names, value, text);
  return type_name == nullptr ? option : option->type_name(type_name);
}

template <class T>
CLI::Option* needed_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                           const char* type_name = nullptr) {
  return typed_option(command, names, value, text, type_name)->required();
}

template <class T>
CLI::Option* checked_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                            const CLI::Validator& check, const char* type_name = nullptr) {
  return typed_option(command, names, value, text, type_name)->check(check);
}

/// The help shows the value that it has without the option.
template <class T>
CLI::Option* shown_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                          const CLI::Validator& check, const char* type_name = nullptr) {
  return checked_option(command, names, value, text, check, type_name)->capture_default_str();
}

/// Adds `--force`, for commands that write a file (base/output_target.h).
inline CLI::Option* add_force_flag(CLI::App& command, bool& force) {
  return command.add_flag("--force", force, "replace a file of another kind, or an input");
}

/// Adds `--dags FILE`: the compute DAGs of the workloads in tuning records, JSON lines, plain or gzip
/// (docs/explanations/schedules.md). `--stages`, its former name, is refused with a message that names `--dags`.
inline CLI::Option* add_dags_option(CLI::App& command, std::string& dags, const std::string& text) {
  command
      .add_option_function<std::string>(
          "--stages", [](const std::string&) { throw CLI::ValidationError("--stages", "is called --dags"); })
      ->group("");
  return typed_option(command, "--dags", dags, text, "FILE");
}

}  // namespace foretime::cli
