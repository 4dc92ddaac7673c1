#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/numbers.h"

/// Declares options in the forms that most commands use. `type_name` replaces the type of the value in the help.
namespace foretime::cli {

template <class T>
CLI::Option* typed_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                          const char* type_name) {
  auto* option = command.add_option(names, value, text);
  return type_name == nullptr ? option : option->type_name(type_name);
}

/// Adds an option that must be given.
template <class T>
CLI::Option* needed_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                           const char* type_name = nullptr) {
  return typed_option(command, names, value, text, type_name)->required();
}

/// Adds an option whose text `check` must accept.
template <class T>
CLI::Option* checked_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                            const CLI::Validator& check, const char* type_name = nullptr) {
  return typed_option(command, names, value, text, type_name)->check(check);
}

/// Names the smallest allowed value of a number.
enum class Least { zero, above_zero };

template <class T>
struct NumberOf {
  using Type = T;
};
template <class T>
struct NumberOf<std::optional<T>> {
  using Type = T;
};

/// Returns a check that refuses texts that are not a finite number of type T from 0 (zero) or above 0 (above_zero).
template <class T>
CLI::Validator number_check(Least least) {
  const auto fault = [least](const std::string& text) -> std::string {
    const auto value = parse_number<std::conditional_t<std::is_integral_v<T>, int64_t, double>>(text);
    const bool positive = least == Least::above_zero;
    if constexpr (std::is_integral_v<T>) {
      if (value && *value >= (positive ? 1 : 0)) return "";
      return fmt::format("found {}, expected a whole number from {}", text, positive ? 1 : 0);
    } else {
      if (value && std::isfinite(*value) && (positive ? *value > 0 : *value >= 0)) return "";
      return fmt::format("found {}, expected a number {} 0", text, positive ? "above" : "from");
    }
  };
  return {fault, least == Least::zero ? "NONNEGATIVE" : "POSITIVE", ""};
}

/// Returns a check that refuses texts that are not a number from `least` to `most`. CLI::Range lets NaN pass.
inline CLI::Validator number_range(double least, double most) {
  const auto fault = [least, most](const std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    if (value && *value >= least && *value <= most) return "";
    return fmt::format("found {}, expected a number from {:g} to {:.7g}", text, least, most);
  };
  return {fault, CLI::Range(least, most).get_description(), ""};
}

/// Adds an option for a number that number_check(least) must accept.
template <class T>
CLI::Option* checked_option(CLI::App& command, const std::string& names, T& value, const std::string& text, Least least,
                            const char* type_name = nullptr) {
  return checked_option(command, names, value, text, number_check<typename NumberOf<T>::Type>(least), type_name);
}

/// Adds a checked option whose help shows its default value.
template <class T>
CLI::Option* shown_option(CLI::App& command, const std::string& names, T& value, const std::string& text,
                          const CLI::Validator& check, const char* type_name = nullptr) {
  return checked_option(command, names, value, text, check, type_name)->capture_default_str();
}

/// Adds an option for a number that number_check(least) must accept; its help shows the default value.
template <class T>
CLI::Option* shown_option(CLI::App& command, const std::string& names, T& value, const std::string& text, Least least,
                          const char* type_name = nullptr) {
  return checked_option(command, names, value, text, least, type_name)->capture_default_str();
}

/// Adds `--force`, for commands that write a file (base/output_target.h).
inline CLI::Option* add_force_flag(CLI::App& command, bool& force) {
  return command.add_flag("--force", force, "replace a file of another kind, or an input");
}

/// Adds `--dags FILE`: the compute DAGs of the workloads in tuning records, JSON lines, plain or gzip
/// (docs/explanations/schedules.md).
inline CLI::Option* add_dags_option(CLI::App& command, std::string& dags, const std::string& text) {
  return typed_option(command, "--dags", dags, text, "FILE");
}

}  // namespace foretime::cli
