#include <CLI/CLI.hpp>

#include "cli/parsing/commands.h"
#include "cli/select_command.h"
#include "coordinator/best_checkpoint.h"
#include "worker/export/bundles.h"

namespace foretime::cli {

void add_select_command(CLI::App& app) {
  add_select_command(app, [](const std::string& checkpoint) {
    return worker::make_bundle(worker::load_trained_model(coordinator::read_best_or_newest(checkpoint)), {});
  });
}

}  // namespace foretime::cli
