#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "configs/metrics.h"

namespace foretime::cli {
namespace {

struct Arguments {
  bool reference = false;
  bool migrate = false;
  std::string file;
  std::vector<std::string> overrides;
};

void run(const Arguments& arguments) {
  if (arguments.reference) {
    std::cout << configs::reference_page();
  } else if (arguments.file.empty()) {
    throw CLI::RequiredError("FILE, or --reference");
  } else if (arguments.migrate) {
    std::cout << configs::migrate(arguments.file);
  } else {
    const auto settings = configs::load_settings(arguments.file, arguments.overrides);
    if (const auto conflict = configs::find_metric_conflict(settings, /*needed=*/false); !conflict.empty())
      throw configs::SettingsError("{}: {}", arguments.file, conflict);
    std::cout << configs::to_yaml(settings);
  }
}

}  // namespace

void add_config_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("config", "Check a settings file and print all settings that a run with it would have");
  // Shared, because the callback outlives this function.
  const auto arguments = std::make_shared<Arguments>();
  auto* reference = command->add_flag("--reference", arguments->reference, "Print the reference page of all settings");
  auto* file = typed_option(*command, "file", arguments->file, "Settings file (YAML)", "FILE");
  file->excludes(reference);
  auto* overrides = typed_option(*command, "overrides", arguments->overrides,
                                 "Settings that replace the file's, such as trainer.steps=100", "KEY=VALUE");
  command
      ->add_flag("--migrate", arguments->migrate, "Print a file of a former version with the new names of its settings")
      ->needs(file)
      ->excludes(overrides);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace foretime::cli
