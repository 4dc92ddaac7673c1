#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace foretime::cli {

/// Adds `--dags FILE`: the compute DAGs of the workloads in tuning records, JSON lines, plain or gzip
/// (docs/explanations/schedules.md). `--stages`, its former name, is refused with a message that names `--dags`.
inline CLI::Option* add_dags_option(CLI::App& command, std::string& dags, const std::string& text) {
  command
      .add_option_function<std::string>(
          "--stages", [](const std::string&) { throw CLI::ValidationError("--stages", "is called --dags"); })
      ->group("");
  return command.add_option("--dags", dags, text)->type_name("FILE");
}

}  // namespace foretime::cli
